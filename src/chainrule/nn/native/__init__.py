"""CPU programs written as LLVM text for the shapes at hand, compiled once and called by XLA through its FFI."""
