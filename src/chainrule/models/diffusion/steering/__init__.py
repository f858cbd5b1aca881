"""Leading samples elsewhere: views, known parts, other examples, classifiers."""
