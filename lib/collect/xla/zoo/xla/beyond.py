"""Networks over other things than pictures: video, sound, points, graphs, tables, rays, games."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from lib.collect.xla.zoo.program import Input, Loss, ZooProgram, flax_program
from lib.collect.xla.zoo.xla.layers import CLASSES


class VideoNet(nn.Module):
    """C3D (Tran et al. 2015); with `factorised`, R(2+1)D: space and time convolved in turn."""

    width: int
    depth: int
    factorised: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for stage in range(self.depth):
            features, stride = self.width << stage, (1 + stage % 2, 2, 2)
            if self.factorised:
                x = nn.relu(nn.Conv(features, (1, 3, 3), (1, 2, 2))(x))
                x = nn.relu(nn.Conv(features, (3, 1, 1), (stride[0], 1, 1))(x))
            else:
                x = nn.relu(nn.Conv(features, (3, 3, 3), stride)(x))
        return nn.Dense(CLASSES)(x.mean((1, 2, 3)))


class WaveNet(nn.Module):
    """WaveNet (van den Oord et al. 2016) over framed sound: gated convolutions, skips summed."""

    width: int
    depth: int
    frame: int = 16

    @nn.compact
    def __call__(self, wave: jax.Array) -> jax.Array:
        x = wave.reshape(len(wave), -1, self.frame)
        x = nn.Conv(self.width, (1,))(x)
        total = 0.0
        for layer in range(self.depth):
            y = nn.Conv(2 * self.width, (3,), kernel_dilation=2**layer, padding="CAUSAL")(x)
            y = nn.tanh(y[..., : self.width]) * nn.sigmoid(y[..., self.width :])
            total = total + nn.Conv(self.width, (1,))(y)
            x = x + nn.Conv(self.width, (1,))(y)
        y = nn.Conv(self.frame, (1,))(nn.relu(total))
        return y.reshape(wave.shape)


class PointNet(nn.Module):
    """PointNet (Qi et al. 2016): dense layers shared by all points, their maximum given back."""

    width: int
    depth: int

    @nn.compact
    def __call__(self, points: jax.Array) -> jax.Array:
        turn = nn.Dense(9)(nn.relu(nn.Dense(self.width)(points)).max(1)).reshape(-1, 3, 3)
        x = points + jnp.einsum("bnc,bcd->bnd", points, turn)
        for layer in range(self.depth):
            x = nn.relu(nn.Dense(self.width << layer)(x))
        whole = jnp.broadcast_to(x.max(1, keepdims=True), x.shape)
        x = nn.relu(nn.Dense(self.width)(jnp.concatenate([x, whole], -1)))
        return nn.Dense(8)(x)


class GraphNet(nn.Module):
    """GCN (Kipf and Welling 2016) on dense weighted graphs; with `heads`, GAT's attention."""

    width: int
    depth: int
    heads: int = 0

    @nn.compact
    def __call__(self, nodes: jax.Array, weights: jax.Array) -> jax.Array:
        x = nn.Dense(self.width)(nodes)
        for _ in range(self.depth):
            x = x + nn.relu(self.attend(x, weights) if self.heads else self.convolve(x, weights))
        return nn.Dense(16)(x.mean(1))

    def convolve(self, x: jax.Array, weights: jax.Array) -> jax.Array:
        """Neighbours' features, weighted."""
        return jnp.einsum("bij,bjc->bic", nn.softmax(weights), nn.Dense(self.width)(x))

    def attend(self, x: jax.Array, weights: jax.Array) -> jax.Array:
        """Neighbours' features, weighted by how well the two ends' scores agree."""
        y = nn.Dense(self.width)(x).reshape(*x.shape[:2], self.heads, -1)
        a, b = (nn.Dense(1)(y)[..., 0] for _ in range(2))  # (B, N, H)
        scores = nn.leaky_relu(a[:, :, None] + b[:, None]) + weights[..., None]
        return jnp.einsum("bijh,bjhc->bihc", nn.softmax(scores, 2), y).reshape(x.shape)


class Recommender(nn.Module):
    """DLRM (Naumov et al. 2019): embeddings and numbers, products of all pairs, dense layers."""

    width: int
    hidden: int
    rows: int = 4096

    @nn.compact
    def __call__(self, numbers: jax.Array, keys: jax.Array) -> jax.Array:
        x = nn.relu(nn.Dense(self.width)(nn.relu(nn.Dense(self.hidden)(numbers))))
        rows = nn.Embed(self.rows, self.width)(keys)  # (B, features, W)
        rows = jnp.concatenate([x[:, None], rows], 1)
        pairs = jnp.einsum("bic,bjc->bij", rows, rows).reshape(len(x), -1)
        x = jnp.concatenate([x, pairs], -1)
        for _ in range(2):
            x = nn.relu(nn.Dense(self.hidden)(x))
        return nn.Dense(1)(x)


class Radiance(nn.Module):
    """NeRF (Mildenhall et al. 2020): waves of a position, dense layers with a skip, composited."""

    width: int
    depth: int
    waves: int = 6

    @nn.compact
    def __call__(self, positions: jax.Array) -> jax.Array:
        rays, samples, _ = positions.shape
        angles = positions[..., None] * 2.0 ** jnp.arange(self.waves)
        waves = jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1).reshape(rays * samples, -1)
        x = waves
        for layer in range(self.depth):
            if layer == self.depth // 2:
                x = jnp.concatenate([x, waves], -1)
            x = nn.relu(nn.Dense(self.width)(x))
        x = nn.Dense(4)(x).reshape(rays, samples, 4)
        light = nn.softmax(x[..., 3])
        return jnp.einsum("rs,rsc->rc", light, nn.sigmoid(x[..., :3]))


class GamePlayer(nn.Module):
    """DQN (Mnih et al. 2015), duelling: large strides over stacked frames, value and advantage."""

    width: int
    hidden: int = 256
    actions: int = 18

    @nn.compact
    def __call__(self, frames: jax.Array) -> jax.Array:
        x = nn.relu(nn.Conv(self.width, (8, 8), 4)(frames))
        x = nn.relu(nn.Conv(2 * self.width, (4, 4), 2)(x))
        x = nn.relu(nn.Conv(2 * self.width, (3, 3))(x))
        x = x.reshape(len(x), -1)
        value = nn.Dense(1)(nn.relu(nn.Dense(self.hidden)(x)))
        gain = nn.Dense(self.actions)(nn.relu(nn.Dense(self.hidden)(x)))
        return value + gain - gain.mean(-1, keepdims=True)


def _family(family: str, loss: Loss = "mean_square") -> Callable[..., ZooProgram]:
    def program(
        variant: str, module: nn.Module, *inputs: Input, mode: str = "forward"
    ) -> ZooProgram:
        size = "x".join(map(str, inputs[0].shape))
        return flax_program(family, "xla", f"{variant}_{size}", module, inputs, mode, loss)

    return program


_video, _wave, _points = _family("video"), _family("wavenet"), _family("pointnet")
_graph, _table, _rays = _family("graph_net"), _family("recommender"), _family("radiance_field")
_game = _family("game_player")

FAMILIES = (
    (
        _video("w16_d2", VideoNet(16, 2), Input((1, 8, 32, 32, 3))),
        _video("w16_d2_split", VideoNet(16, 2, True), Input((1, 8, 32, 32, 3))),
        _video("w8_d1", VideoNet(8, 1), Input((2, 4, 24, 24, 3)), mode="train"),
    ),
    (
        _wave("w64_d3", WaveNet(64, 3), Input((4, 4096))),
        _wave("w64_d1", WaveNet(64, 1), Input((4, 4096)), mode="train"),
        _wave("w96_d2_k32", WaveNet(96, 2, 32), Input((4, 8192))),
    ),
    (
        _points("w64_d3", PointNet(64, 3), Input((4, 256, 3))),
        _points("w32_d2", PointNet(32, 2), Input((8, 128, 3)), mode="train"),
        _points("w128_d2", PointNet(128, 2), Input((2, 512, 3))),
    ),
    (
        _graph("w128_d3", GraphNet(128, 3), Input((16, 64, 32)), Input((16, 64, 64))),
        _graph("w64_d2_h4", GraphNet(64, 2, 4), Input((8, 64, 32)), Input((8, 64, 64))),
        _graph("w64_d2", GraphNet(64, 2), Input((16, 64, 32)), Input((16, 64, 64)), mode="train"),
    ),
    (
        _table("w64_f256", Recommender(64, 256), Input((512, 13)), Input((512, 16), 4096)),
        _table(
            "w32_f128", Recommender(32, 128), Input((384, 13)), Input((384, 8), 4096), mode="train"
        ),
    ),
    (
        _rays("w128_d4", Radiance(128, 4), Input((32, 32, 3))),
        _rays("w64_d4", Radiance(64, 4), Input((64, 16, 3)), mode="train"),
    ),
    (
        _game("w32", GamePlayer(32), Input((8, 64, 64, 4))),
        _game("w16_f128", GamePlayer(16, 128), Input((8, 48, 48, 4)), mode="train"),
    ),
)
