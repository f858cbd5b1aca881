"""New inputs of a trained model: files, folders, arrays, data frames, texts and images, prepared as in training.

`Kind.inputs` says how raw inputs of a kind become examples; the modules here do it. Inputs come in chunks and in their
order. One that cannot be used keeps its position and says why.
"""
