"""The bytes of video files: on this host, or below a URL. Start at `files`."""
