"""Bodies made of layers that several families of models use: networks, towers, encoders, conditioning."""
