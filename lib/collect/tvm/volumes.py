"""Convolutions of volumes as convolutions of images."""

from __future__ import annotations

from tvm import relax

from lib.collect.tvm.transposed import whole
from lib.collect.tvm.winograd import by_tiles


def by_images(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Return a convolution of volumes, channels last, as one of images; as it is if it has groups.

    An image has the channels of all images that one of the result is a sum of. So volumes are
    computed as images are: by tiles, of which a fourth of the multiplications does.
    """
    (x, weight), how = call.args, call.attrs
    if int(how.groups) > 1:
        return call
    batch, count, *size, outputs = whole(call.ty.shape)
    depth, *kernel, inputs, _ = whole(weight.ty.shape)
    front, top, left, back, bottom, right = whole(how.padding)
    (stride, *strides), (dilation, *dilations) = whole(how.strides), whole(how.dilation)
    height, width = whole(x.ty.shape)[2:4]
    if front or back:
        x = relax.op.nn.pad(x, [0, 0, front, back, *[0] * 6])
    firsts = [k * dilation for k in range(depth)]
    length = (count - 1) * stride + 1
    parts = [relax.op.strided_slice(x, [1], [k], [k + length], [stride]) for k in firsts]
    images = relax.op.concat(parts, 4)
    images = relax.op.reshape(images, [batch * count, height, width, depth * inputs])
    weight = relax.op.permute_dims(weight, [1, 2, 0, 3, 4])
    weight = relax.op.reshape(weight, [*kernel, depth * inputs, outputs])
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    padding = [top, left, bottom, right]
    images, weight = builder.emit(images), builder.emit(weight)
    y = relax.op.nn.conv2d(images, weight, strides, padding, dilations, **layouts)
    y = by_tiles(builder, builder.normalize(y))
    return relax.op.reshape(y, [batch, count, *size, outputs])
