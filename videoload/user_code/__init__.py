"""The functions of users: found, held to their source, called."""
