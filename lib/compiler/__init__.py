"""What a configuration makes a compiler do: a program as tensors, which of them it constrains, and,
by hardware, what that leads to."""
