"""What a configuration makes a compiler do: which tensors its layouts constrain, how far these
propagate, and which tensors are copied from one layout to another for it."""
