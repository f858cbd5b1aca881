"""Problems of finitely many states, small enough to be solved exactly."""
