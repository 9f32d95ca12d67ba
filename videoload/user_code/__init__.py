"""The functions of users: found, compared with what an import gives, called."""
