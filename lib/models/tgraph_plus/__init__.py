"""TGraph+: learned costs of what layouts make XLA:CPU do."""
