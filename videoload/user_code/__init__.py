"""The functions of users: found, held to their source, called; and the items that they make."""
