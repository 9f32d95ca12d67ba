"""The training side: the streams, who decodes what, and what TensorFlow is handed."""
