"""Kernels of TGraph's blocks for a GPU, in Triton; :mod:`lib.models.common.blocks_gpu` calls them.

Tensors are (nodes, configurations, channels) in memory, of float32 or bfloat16; all arithmetic
between loads and stores is in float32. No kernel adds by atomic operations, so that a sum is the
same each time. Exponentials are of 2, which is one instruction. ``TRITON_INTERPRET=1`` runs them
on a CPU.
"""

from __future__ import annotations

import triton
import triton.language as tl

SIZES = ["n", "b", "stored", "columns", "fixed"]  # of graphs: none is compiled into a kernel


@triton.jit
def _gelu(x):
    """GELU of numbers from -1 to 1, as gated vectors of unit length have: x / 2 + x^2 p(x^2).

    p was fitted to erf(x / sqrt(2)) / 2x. It is off by 4e-8, in a third of erf's instructions.
    """
    u = x * x
    p = 0.009967340176 - u * (0.001169580009 - u * 9.434720584e-5)
    return 0.5 * x + u * (0.3989422652 - u * (0.06648961188 - u * p))


@triton.jit
def _gelu_slope(x):
    """Derivative of :func:`_gelu`, by a polynomial of its own, off by 3e-8."""
    u = x * x
    p = 0.05983824655 - u * (0.00948523823 - u * (0.001127938973 - u * 8.87798233e-5))
    return 0.5 + x * (0.7978845835 - u * (0.2659612596 - u * p))


@triton.jit(do_not_specialize=SIZES)
def expand(table, cells, out, b, columns, fixed, C: tl.constexpr, BLOCK: tl.constexpr):
    """Write each cell's row of the table: (r, C) to (n, b, C); a program a node and BLOCK columns.

    The first k nodes have the row that ``cells``, (k, b), names; node i after them has row i - k.
    ``fixed`` is k.
    """
    i = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < columns
    if i < fixed:
        row = tl.load(cells + i * b + at // C, mask=inside, other=0)
    else:
        row = tl.zeros((BLOCK,), tl.int64) + (i - fixed)
    value = tl.load(table + row * C + at % C, mask=inside)
    tl.store(out + i * columns + at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=SIZES)
def expand_backward(
    gradient, cells, nodes, out, b, fixed, C: tl.constexpr, B: tl.constexpr
):  # fmt: skip
    """Add up the gradients of each row's cells: (n, b, C) to (r, C) float32; a program a row."""
    r = tl.program_id(0).to(tl.int64)
    i = tl.load(nodes + r)
    ch = tl.arange(0, C)
    total = tl.zeros((C,), tl.float32)
    for start in range(0, b, B):
        k = start + tl.arange(0, B)
        has = k < b
        if i < fixed:
            has = has & (tl.load(cells + i * b + k, mask=has, other=-1) == r)
        at = (i * b + k)[:, None] * C + ch[None, :]
        total += tl.sum(tl.load(gradient + at, mask=has[:, None], other=0).to(tl.float32), 0)
    tl.store(out + r * C + ch, total)


@triton.jit
def _tile(start, n, apart, col, inside, ROWS: tl.constexpr):
    """Places of some columns of ROWS nodes, which are ``apart`` in memory, and which there are."""
    i = start + tl.arange(0, ROWS)
    return i.to(tl.int64)[:, None] * apart + col[None, :], (i < n)[:, None] & inside[None, :]


@triton.jit(do_not_specialize=SIZES)
def norm(x, out, scale, n, columns, eps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Instance norm: each column of (n, columns) with mean 0 and variance 1 over the nodes.

    A program has some columns. It goes through them twice: for the moments, which are joined tile
    by tile, and to write; the second time they are in the cache of the card. ``scale``, (columns,)
    float32, is 1 over the deviation, for the way back.
    """
    col = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    inside = col < columns
    mean = tl.zeros((COLUMNS,), tl.float32)
    squares = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, n, ROWS):
        at, valid = _tile(start, n, columns, col, inside, ROWS)
        value = tl.load(x + at, mask=valid, other=0).to(tl.float32)
        count = tl.minimum(ROWS, n - start)
        tile_mean = tl.sum(value, 0) / count
        centred = tl.where(valid, value - tile_mean[None, :], 0.0)
        difference = tile_mean - mean
        share = count / (start + count)
        squares += tl.sum(centred * centred, 0) + difference * difference * start * share
        mean += difference * share
    factor = tl.rsqrt(squares / n + eps)
    tl.store(scale + col, factor, mask=inside)
    for start in range(0, n, ROWS):
        at, valid = _tile(start, n, columns, col, inside, ROWS)
        value = tl.load(x + at, mask=valid, other=0).to(tl.float32)
        value = (value - mean[None, :]) * factor[None, :]
        tl.store(out + at, value.to(out.dtype.element_ty), mask=valid)


@triton.jit(do_not_specialize=SIZES)
def norm_backward(
    gradient, normal, scale, skipped, skipped_node, out, n, columns,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Gradient by the norm's input, plus ``skipped``, that of the residual: (n, columns).

    ``skipped_node`` is the distance between two nodes of ``skipped``: 0 if all have the same.
    """
    col = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    inside = col < columns
    sums = tl.zeros((COLUMNS,), tl.float32)
    products = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, n, ROWS):
        at, valid = _tile(start, n, columns, col, inside, ROWS)
        slope = tl.load(gradient + at, mask=valid, other=0).to(tl.float32)
        sums += tl.sum(slope, 0)
        products += tl.sum(slope * tl.load(normal + at, mask=valid, other=0).to(tl.float32), 0)
    factor = tl.load(scale + col, mask=inside, other=0)
    sums, products = sums / n, products / n
    for start in range(0, n, ROWS):
        at, valid = _tile(start, n, columns, col, inside, ROWS)
        slope = tl.load(gradient + at, mask=valid, other=0).to(tl.float32)
        value = tl.load(normal + at, mask=valid, other=0).to(tl.float32)
        slope = (slope - sums[None, :] - value * products[None, :]) * factor[None, :]
        kept, _ = _tile(start, n, skipped_node, col, inside, ROWS)
        slope += tl.load(skipped + kept, mask=valid, other=0).to(tl.float32)
        tl.store(out + at, slope.to(out.dtype.element_ty), mask=valid)


@triton.jit(do_not_specialize=SIZES)
def neighbour_sum(
    x, x_row, own, out, out_row, bias, degree_bias, sources, pointers, b, columns,
    W: tl.constexpr, ADD: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum over each node's neighbours, (n, b, W); a program a node and BLOCK columns of b * W.

    With ADD also ``own``, of the rows of ``x``, the bias, and one bias a neighbour. ``x_row`` and
    ``out_row`` are distances between rows, which may be parts of longer ones.
    """
    i = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    k, ch = column // W, column % W
    first = tl.load(pointers + i)
    end = tl.load(pointers + i + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(first, end, ROWS):
        e = start + tl.arange(0, ROWS)
        j = tl.load(sources + e, mask=e < end, other=0)
        at = (j * b)[:, None] * x_row + (k * x_row + ch)[None, :]
        valid = (e < end)[:, None] & inside[None, :]
        total += tl.sum(tl.load(x + at, mask=valid, other=0).to(tl.float32), 0)
    if ADD:
        total += tl.load(own + (i * b + k) * x_row + ch, mask=inside, other=0).to(tl.float32)
        degree = (end - first).to(tl.float32)
        total += tl.load(bias + ch) + degree * tl.load(degree_bias + ch)
    tl.store(out + (i * b + k) * out_row + ch, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _gated(pre, row, has, first, first_bias, second, second_bias, W: tl.constexpr):
    """Vectors of unit length, (B, W), 1 over the length that they had, (B, 1), their gates by
    channel attention, (B, W), and its squeezed vectors, (B, H); equation 5."""
    kind = first.dtype
    at = row[:, None] * W + tl.arange(0, W)[None, :]
    vector = tl.load(pre + at, mask=has[:, None], other=0).to(tl.float32)
    shrink = 1 / tl.maximum(tl.sqrt(tl.sum(vector * vector, 1)), 1e-12)[:, None]
    unit = vector * shrink
    squeezed = tl.dot(unit.to(kind), first, input_precision="ieee") + first_bias[None, :]
    squeezed = tl.maximum(squeezed, 0.0)
    logit = tl.dot(squeezed.to(kind), second, input_precision="ieee") + second_bias[None, :]
    root = tl.rsqrt(1 + tl.exp2(logit * -1.4426950408889634))  # of the sigmoid: no division
    return unit, shrink, root * root, squeezed


@triton.jit
def _gate_backward(by_eta, unit, gate, squeezed, first, second):
    """Gradients by the gates' logits, by the squeezed vectors before ReLU, and by the unit ones."""
    kind = first.dtype
    by_gate = by_eta * unit * gate * (1 - gate)
    by_squeezed = tl.dot(by_gate.to(kind), tl.trans(second), input_precision="ieee")
    by_squeezed = tl.where(squeezed > 0, by_squeezed, 0.0)
    by_unit = tl.dot(by_squeezed.to(kind), tl.trans(first), input_precision="ieee")
    return by_gate, by_squeezed, by_unit + by_eta * gate


@triton.jit
def _product(left, right, kind):
    """(B, H) and (B, W) to (H, W)."""
    return tl.dot(tl.trans(left.to(kind)), right.to(kind), input_precision="ieee")


@triton.jit
def _store_sums(to, one, two, three, short, last, W: tl.constexpr, H: tl.constexpr):
    """Store three vectors (W,), one (H,), and the sum of the last one."""
    w = tl.arange(0, W)
    tl.store(to + w, one)
    tl.store(to + W + w, two)
    tl.store(to + 2 * W + w, three)
    tl.store(to + 3 * W + tl.arange(0, H), short)
    tl.store(to + 3 * W + H, tl.sum(last, 0))


@triton.jit
def _weights(
    pre, first, first_bias, second, second_bias, SQUEEZED, W: tl.constexpr, H: tl.constexpr
):  # fmt: skip
    """Weights of channel attention: (W, H), (H,), (H, W), (W,); H as a power of two."""
    w, h = tl.arange(0, W), tl.arange(0, H)
    is_real = h < SQUEEZED
    kind = pre.dtype.element_ty
    one = tl.load(first + h[None, :] * W + w[:, None], mask=is_real[None, :], other=0).to(kind)
    two = tl.load(second + w[None, :] * SQUEEZED + h[:, None], mask=is_real[:, None], other=0)
    one_bias, two_bias = tl.load(first_bias + h, mask=is_real, other=0), tl.load(second_bias + w)
    return one, one_bias, two.to(kind), two_bias


@triton.jit
def _inverse(log_t):
    """1 over the temperature."""
    return tl.exp2(tl.load(log_t) * -1.4426950408889634)


@triton.jit
def _stored(group, k, b, GROUPED: tl.constexpr):
    """Which of the stored configurations the k of b are."""
    return tl.load(group + k, mask=k < b, other=0).to(tl.int32) if GROUPED else k


@triton.jit(do_not_specialize=SIZES)
def attend(
    pre, x, group, out, sums, first, first_bias, second, second_bias, log_t, b, stored,
    GROUPED: tl.constexpr,
    SQUEEZED: tl.constexpr, W: tl.constexpr, H: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """L2 norm, both attentions, GELU and residual (equations 3 to 6); a program a node.

    Args:
        pre: (n, stored, W), what GraphSAGE has before its norm.
        x: (n, stored, 2 W), the block's input.
        group: GROUPED, (b,) int64, which of the stored configurations they are; else all of them.
        out: (n, b, 2 W), the block's output.
        sums: (n, W) float32, written: the binary logarithm of what the softmax divides by.
        first, first_bias, second, second_bias: of channel attention, (SQUEEZED, W), (SQUEEZED,),
            (W, SQUEEZED), (W,) float32.
        log_t: () float32, the logarithm of the temperature.
    """
    i = tl.program_id(0).to(tl.int64)
    one, one_bias, two, two_bias = _weights(
        pre, first, first_bias, second, second_bias, SQUEEZED, W, H
    )
    sharpness = _inverse(log_t) * 1.4426950408889634
    pre += i * stored * W
    x += i * stored * (2 * W)
    out += i * b * (2 * W)
    most = tl.full((W,), float("-inf"), tl.float32)
    total = tl.zeros((B, W), tl.float32)
    for start in range(0, b, B):
        k = start + tl.arange(0, B)
        row = _stored(group, k, b, GROUPED)
        unit, _, gate, _ = _gated(pre, row, k < b, one, one_bias, two, two_bias, W)
        logit = tl.where((k < b)[:, None], unit * gate * sharpness, float("-inf"))
        larger = tl.maximum(most, tl.max(logit, 0))
        total = total * tl.exp2(most - larger)[None, :] + tl.exp2(logit - larger[None, :])
        most = larger
    whole = most + tl.log2(tl.sum(total, 0))
    tl.store(sums + i * W + tl.arange(0, W), whole)
    for start in range(0, b, B):
        k = start + tl.arange(0, B)
        row = _stored(group, k, b, GROUPED)
        unit, _, gate, _ = _gated(pre, row, k < b, one, one_bias, two, two_bias, W)
        eta = unit * gate
        share = tl.exp2(eta * sharpness - whole[None, :])
        source = row[:, None] * (2 * W) + tl.arange(0, W)[None, :]
        at = k[:, None] * (2 * W) + tl.arange(0, W)[None, :]
        has = (k < b)[:, None]
        value = tl.load(x + source, mask=has, other=0).to(tl.float32) + _gelu(eta)
        tl.store(out + at, value.to(out.dtype.element_ty), mask=has)
        value = tl.load(x + source + W, mask=has, other=0).to(tl.float32) + _gelu(eta * share)
        tl.store(out + at + W, value.to(out.dtype.element_ty), mask=has)


@triton.jit
def _pull(
    pre, gradient, b, whole, sharpness, one, one_bias, two, two_bias,
    W: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Sum a node's shares times the gradients by them over its configurations, (W,)."""
    total = tl.zeros((B, W), tl.float32)
    for start in range(0, b, B):
        k = start + tl.arange(0, B)
        unit, _, gate, _ = _gated(pre, k, k < b, one, one_bias, two, two_bias, W)
        eta = unit * gate
        share = tl.exp2(eta * sharpness - whole[None, :])
        at = k[:, None] * (2 * W) + tl.arange(0, W)[None, :] + W
        slope = tl.load(gradient + at, mask=(k < b)[:, None], other=0).to(tl.float32)
        total += slope * _gelu_slope(eta * share) * eta * share
    return tl.sum(total, 0)


@triton.jit(do_not_specialize=SIZES)
def attend_backward(
    pre, sums, gradient, gradient_node, out, partial, first, first_bias, second, second_bias,
    log_t, pointers, n, b,
    SQUEEZED: tl.constexpr, W: tl.constexpr, H: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Gradients of :func:`attend` by ``pre`` and all weights; a program some nodes.

    Args:
        sums: of the softmax, as :func:`attend` writes them.
        gradient: (n, b, 2 W) by the output, ``gradient_node`` apart for each node.
        out: by ``pre``, (n, b, W) in the first half of rows of 2 W.
        partial: (programs, 2 W H + 3 W + H + 1) float32, each program's sums of the gradients by
            the first and second weights of channel attention, by the bias, by the bias of each
            neighbour, by the two biases of channel attention, and by the logarithm of the
            temperature.
        pointers: (n + 1,), where each node's neighbours start.
    """
    w, h = tl.arange(0, W), tl.arange(0, H)
    one, one_bias, two, two_bias = _weights(
        pre, first, first_bias, second, second_bias, SQUEEZED, W, H
    )
    kind = pre.dtype.element_ty
    inverse_t = _inverse(log_t)
    sharpness = inverse_t * 1.4426950408889634
    by_first = tl.zeros((H, W), tl.float32)
    by_second = tl.zeros((H, W), tl.float32)
    by_bias = tl.zeros((W,), tl.float32)
    by_degree_bias = tl.zeros((W,), tl.float32)
    by_first_bias = tl.zeros((H,), tl.float32)
    by_second_bias = tl.zeros((W,), tl.float32)
    by_log_t = tl.zeros((W,), tl.float32)
    for node in range(tl.program_id(0), n, tl.num_programs(0)):
        i = tl.cast(node, tl.int64)
        whole = tl.load(sums + i * W + w)
        own, by_own = pre + i * b * W, gradient + i * gradient_node
        to = out + i * b * (2 * W)
        pull = _pull(own, by_own, b, whole, sharpness, one, one_bias, two, two_bias, W, B)
        node_sum = tl.zeros((W,), tl.float32)
        for start in range(0, b, B):
            k = start + tl.arange(0, B)
            has = (k < b)[:, None]
            unit, shrink, gate, squeezed = _gated(own, k, k < b, one, one_bias, two, two_bias, W)
            eta = unit * gate
            share = tl.exp2(eta * sharpness - whole[None, :])
            at = k[:, None] * (2 * W) + w[None, :]
            by_cross = tl.load(by_own + at + W, mask=has, other=0).to(tl.float32)
            by_cross *= _gelu_slope(eta * share)
            by_logit = share * (by_cross * eta - pull[None, :])  # of the softmax
            by_logit = tl.where(has, by_logit, 0.0)
            by_log_t -= tl.sum(by_logit * eta, 0) * inverse_t
            by_eta = tl.load(by_own + at, mask=has, other=0).to(tl.float32) * _gelu_slope(eta)
            by_eta += by_cross * share + by_logit * inverse_t
            by_gate, by_squeezed, by_unit = _gate_backward(by_eta, unit, gate, squeezed, one, two)
            by_second_bias += tl.sum(by_gate, 0)
            by_second += _product(squeezed, by_gate, kind)
            by_first_bias += tl.sum(by_squeezed, 0)
            by_first += _product(by_squeezed, unit, kind)
            along = tl.sum(by_unit * unit, 1)[:, None]
            by_pre = (by_unit - along * unit) * shrink
            node_sum += tl.sum(by_pre, 0)
            tl.store(to + at, by_pre.to(out.dtype.element_ty), mask=has)
        degree = (tl.load(pointers + i + 1) - tl.load(pointers + i)).to(tl.float32)
        by_bias += node_sum
        by_degree_bias += degree * node_sum
    to = partial + tl.program_id(0).to(tl.int64) * (2 * W * H + 3 * W + H + 1)
    square = h[:, None] * W + w[None, :]
    tl.store(to + square, by_first)
    tl.store(to + W * H + square, by_second)
    to += 2 * W * H
    _store_sums(to, by_bias, by_degree_bias, by_second_bias, by_first_bias, by_log_t, W, H)
