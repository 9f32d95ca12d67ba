"""Adapters that give a stream to TensorFlow and Keras."""
