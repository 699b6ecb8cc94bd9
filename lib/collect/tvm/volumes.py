"""Convolutions of volumes as convolutions of images."""

from __future__ import annotations

from tvm import relax

from lib.collect.tvm.transposed import whole

TURNED = [0, 2, 1, 3, 4]  # channels and depth change places


def by_images(call: relax.Call) -> relax.Expr:
    """Return a convolution of volumes, channels first, as one of images; as it is if it has groups.

    An image has the channels of all images that one of the result is a sum of. So volumes are
    computed as images are: channels last, by tiles of which a fourth of the multiplications does.
    """
    (x, weight), how = call.args, call.attrs
    if int(how.groups) > 1:
        return call
    batch, outputs, count, *size = whole(call.ty.shape)
    _, inputs, depth, *kernel = whole(weight.ty.shape)
    front, top, left, back, bottom, right = whole(how.padding)
    (stride, *strides), (dilation, *dilations) = whole(how.strides), whole(how.dilation)
    if front or back:
        x = relax.op.nn.pad(x, [*[0] * 4, front, back, *[0] * 4])
    firsts = [k * dilation for k in range(depth)]
    length = (count - 1) * stride + 1
    parts = [relax.op.strided_slice(x, [2], [k], [k + length], [stride]) for k in firsts]
    images = relax.op.permute_dims(relax.op.concat(parts, 1), TURNED)
    height, width = whole(call.args[0].ty.shape)[3:]
    images = relax.op.reshape(images, [batch * count, depth * inputs, height, width])
    weight = relax.op.permute_dims(weight, TURNED)
    weight = relax.op.reshape(weight, [outputs, depth * inputs, *kernel])
    padding = [top, left, bottom, right]
    y = relax.op.nn.conv2d(images, weight, strides, padding, dilations)
    return relax.op.permute_dims(relax.op.reshape(y, [batch, count, outputs, *size]), TURNED)
