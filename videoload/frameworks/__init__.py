"""A stream as TensorFlow and Keras want it."""
