"""Both attentions against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lib.models.common.attention import ChannelSelfAttention, ConfigurationCrossAttention


def test_channel_attention_is_equation_5():
    torch.manual_seed(0)
    layer = ChannelSelfAttention(16, 8).double()
    x = torch.randn(3, 5, 16, dtype=torch.float64)
    first, second = layer.excitation, layer.squeeze
    assert first.weight.shape == (2, 16)
    w1, b1, w2, b2 = (t.detach().numpy() for t in (*first.parameters(), *second.parameters()))
    hidden = np.maximum(x.numpy() @ w1.T + b1, 0)
    expected = x.numpy() / (1 + np.exp(-(hidden @ w2.T + b2)))
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 3.0])
def test_cross_attention_is_equation_6(temperature):
    layer = ConfigurationCrossAttention(temperature).double()
    kept = layer.log_temperature.exp().item()
    assert kept == pytest.approx(temperature)
    x = torch.randn(4, 6, 3, dtype=torch.float64)
    expected = np.empty(x.shape)
    for node in range(4):
        for channel in range(3):
            column = x[node, :, channel].numpy()
            powers = np.exp(column / kept)
            expected[node, :, channel] = column * powers / powers.sum()
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-10)
