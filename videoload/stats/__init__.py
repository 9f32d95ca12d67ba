"""What a stream did, and what slows the training down. Pure, except for `meter`."""
