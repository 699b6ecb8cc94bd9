"""Effects of a configuration on a compiler: the program as tensors, the tensors that its layouts
constrain and, by hardware, what follows from them."""
