"""PyTorch's operators in parts: they compute the same, of tensors of one type."""

import torch
from torch import nn
from torch.nn import functional

from lib.collect.tvm.complex_numbers import in_pairs
from lib.collect.tvm.operators import decompositions, fold, promote


def turned(x):
    """Return results of complex numbers, as rotary embeddings have them, and others."""
    by = torch.polar(torch.ones(2), torch.arange(2) / 3)
    pairs = torch.view_as_complex(x.reshape(5, 3, 2, 2)) * by
    back = torch.view_as_real(pairs.transpose(1, 2)[:, :1].exp() / (2j * pairs[:, None, :, 0] + 2))
    return back, (pairs * pairs.conj()).real, pairs.abs()


def spectra(x):
    """Return Fourier transforms of real and complex numbers, and back, and of windows."""
    half = torch.fft.rfft2(x)
    whole = torch.fft.fftn(x.to(torch.complex64), dim=(0, 2), norm="ortho")
    back = torch.fft.irfft(half, n=4, norm="forward"), torch.fft.irfft2(half, s=(4, 3))
    windows = torch.stft(x.flatten(), 8, 3, window=torch.hann_window(8), return_complex=True)
    signs = x.tanh().flatten()
    products = torch.outer(signs, signs).reshape(12, 300)  # 15 rows of 20
    long = torch.fft.rfft(products, norm="ortho")
    other = torch.fft.fft(torch.complex(products, products**2), norm="ortho")
    back += torch.fft.irfft(other[:, :151], norm="ortho", n=300), torch.view_as_real(other)
    polar = torch.polar(x[0].abs() + 1, x[1].clip(-3, 3))
    return (
        *(*back, polar.imag, polar.angle(), long.abs(), half.abs(), torch.view_as_real(whole)),
        *(torch.fft.ifft(whole).real, windows.abs()),
    )


class Operators(nn.Module):
    """What TVM reads in parts alone, or computes once, or with other types."""

    def forward(self, x, i, j, bags, starts, image):
        """Of (5, 4, 3) numbers, (3,) and (2, 1) indices, bags of rows, and an image."""
        bag, table, axis = functional.embedding_bag, x[:, 0], torch.arange(3)
        shares = x[0, :2].ravel()
        return {
            "index": x[i],
            "index along another axis": x[:, :, j],
            "two indices": x[:, j, i % 3],
            "indices apart": x[i, :, j],
            "constant indices": x[:, axis, torch.tensor([2, 0, 1])],
            "index_add": x.index_add(0, i % 5, x[:3], alpha=2),
            "scatter_add": x.scatter_add(2, (x[..., 1:] > 0) * 2, x[..., :2]),
            "scatter": x.scatter(1, j.new_tensor([0, 3])[:, None].expand(5, 2, 3), x[:, :2]),
            "scatter of a number": x.scatter(2, (x[..., :1] > 0).long(), 7.0),
            "scatter_reduce": [
                x.scatter_reduce(
                    0, i.expand(4, 3, 3).transpose(0, 1) % 5, x[:3], way, include_self=own
                )
                for way in ("sum", "prod", "mean", "amax", "amin")
                for own in (True, False)
            ],
            "windows": x.unfold(1, 3, 1),
            "image to columns": functional.unfold(image, 3, padding=1, stride=2),
            "sums of bags": bag(bags, table, starts, None, 2.0, False, "sum", False, shares),
            "means of bags": bag(bags, table, starts, mode="mean", padding_idx=0),
            "largest of bags": bag(bags, table, starts, mode="max"),
            "with their end": bag(bags, table, j.new_tensor([0, 2, 6]), include_last_offset=True),
            "bags of one length": bag(bags.reshape(2, 3), table, mode="sum"),
            "topk": x.topk(2, 1),
            "least": x.topk(3, 0, largest=False),
            "max": x.max(1, keepdim=True),
            "min": x.min(2)[0],
            "cumsum": (x > 0).cumsum(1),
            "cumprod": x.cumprod(0),
            "one_hot": functional.one_hot(i % 5, 5),
            "bucketize": torch.bucketize(x, torch.tensor([-1.0, 0, 1])),
            "distances": torch.cdist(x, x[:, :2]),
            "bilinear": functional.bilinear(x[0], x[1], x[2:].reshape(4, 3, -1)[..., :3]),
            "largest of windows": functional.adaptive_max_pool2d(image, (2, 3)),
            "means of windows": functional.adaptive_avg_pool2d(image, (2, 3)),
            "nearest pixels": functional.interpolate(image, size=(7, 4)),
            "pixels twice": functional.interpolate(image, scale_factor=2),
            "smooth pixels": [
                functional.interpolate(image, mode=mode, antialias=True, **how)
                for mode in ("bilinear", "bicubic")
                for how in ({"scale_factor": 0.8}, {"size": (3, 4), "align_corners": True})
            ],
            "groups": functional.group_norm(x.reshape(3, 4, 5), 2, x[0, :, 0], x[1, :, 0]),
            "floor": (x // 0.3, i // 2, torch.div(x, 2, rounding_mode="trunc")),
            "exp2": x.exp2(),
            "var_mean": torch.var_mean(x, 1, correction=0, keepdim=True),
            "a frequency of integers": x * torch.exp(-axis / 3),
            "integers with numbers": (i + 0.5, x[0, 0] * i, i > 0.5, i.sqrt()),
            "joined": torch.cat([x[0, 0], i]),
            "chosen": torch.where(x[0, 0] > 0, x[0, 0], i),
            "logical": torch.logical_and(x, x > 0),
            "a constant that is a result": axis,
            "turned": turned(x),
            "spectra": spectra(x),
            "hypot": torch.hypot(x, x + 1),
        }


def test_operators_in_parts_compute_the_same_of_tensors_of_one_type():
    random = torch.randn(5, 4, 3), torch.tensor([4, -1, 0]), torch.tensor([[1], [-2]])
    bags = torch.tensor([4, 0, 0, 2, 3, 1]), torch.tensor([0, 1, 1, 4])
    inputs = *random, *bags, torch.randn(1, 2, 5, 3)
    exported = torch.export.export(Operators(), inputs)
    table = torch.export.default_decompositions()
    table.update(decompositions())
    exported = exported.run_decompositions(table)
    fold(exported)
    in_pairs(exported, table)
    promote(exported)
    exported.graph_module.recompile()
    expected = Operators()(*inputs)
    torch.testing.assert_close(exported.module()(*inputs), expected, equal_nan=True)
    for node in exported.graph.nodes:
        assert not getattr(node.meta.get("val"), "is_complex", bool)(), node
        if torch.Tag.pointwise in getattr(node.target, "tags", ()) and "where" not in node.name:
            assert len({x.meta["val"].dtype for x in node.all_input_nodes}) == 1, node
