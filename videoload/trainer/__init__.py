"""The training side: the streams, which worker decodes what, and what TensorFlow gets."""
