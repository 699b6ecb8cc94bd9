"""Networks of torchvision and transformers are read, of each way to build one, smaller than there,
with random weights, and the zoo of ONNX; skipped where there is no TVM."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")

import onnx
import torch
from torch import nn

from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import Network, declare_operators, named
from lib.files.errors import UserError

declare_operators()
import torchvision.models as models  # noqa: E402 (whose operators are declared by now)
import transformers  # noqa: E402
from torchvision.models import efficientnet, mobilenetv3, regnet, swin_transformer  # noqa: E402


def swin(**parts) -> nn.Module:
    return models.SwinTransformer([4, 4], 16, [1, 1], [2, 4], [4, 4], num_classes=10, **parts)


CLASSIFIERS = {
    "ConvNeXt": lambda: models.ConvNeXt(
        [models.convnext.CNBlockConfig(16, 32, 1), models.convnext.CNBlockConfig(32, None, 1)]
    ),
    "DenseNet": lambda: models.DenseNet(8, (1, 1, 1, 1), 16),
    "EfficientNet": lambda: models.EfficientNet(
        [
            efficientnet.FusedMBConvConfig(2, 3, 1, 16, 16, 1),
            efficientnet.MBConvConfig(4, 3, 2, 16, 24, 1),
        ],
        dropout=0.2,
        last_channel=32,
    ),
    "MaxViT": lambda: models.MaxVit((64, 64), 8, 2, [8, 16], [1, 1], 4, 0.0),
    "MobileNetV3": lambda: models.MobileNetV3(
        [mobilenetv3.InvertedResidualConfig(16, 3, 16, 16, True, "HS", 2, 1, 1)], 64
    ),
    "RegNet": lambda: models.RegNet(
        regnet.BlockParams([1, 1], [16, 32], [8, 8], [1.0, 1.0], [2, 2], 0.25)
    ),
    "ResNeXt": lambda: models.ResNet(
        models.resnet.Bottleneck, [1, 1, 1, 1], groups=4, width_per_group=4
    ),
    "ShuffleNetV2": lambda: models.ShuffleNetV2([1, 1, 1], [8, 16, 32, 64, 128]),
    "Swin": swin,
    "SwinV2": lambda: swin(
        block=swin_transformer.SwinTransformerBlockV2,
        downsample_layer=swin_transformer.PatchMergingV2,
    ),
    "ViT": lambda: models.VisionTransformer(64, 16, 1, 2, 16, 32),
}

SMALL = {
    **{"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4},
    **{"intermediate_size": 64, "max_position_embeddings": 64, "use_cache": False},
}
SPECIAL = {f"{name}_token_id": k for k, name in enumerate(("pad", "bos", "eos", "cls", "sep"))}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
VIT = {"image_size": 32, "patch_size": 8}
SWIN = {"num_attention_heads": [2, 4], "num_hidden_layers": 2}
GPT2 = {"n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 64}
BART = {
    f"{part}_{what}": size
    for part in ("encoder", "decoder")
    for what, size in (("layers", 1), ("attention_heads", 4), ("ffn_dim", 64))
}
WAV2VEC2 = {"conv_dim": [16] * 7, "num_conv_pos_embeddings": 16}
TRANSFORMERS = {
    "BartModel": {"d_model": 32, **BART},
    "BertModel": {},
    "BloomModel": {"n_layer": 1, "n_head": 4},
    "CLIPTextModel": {"eos_token_id": 2},
    "ConvNextModel": {"hidden_sizes": [16] * 4, "depths": [1] * 4},
    "DebertaV2Model": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "FalconModel": {},
    "GPT2Model": GPT2,
    "GPTNeoModel": {"num_layers": 1, "attention_types": [[["local"], 1]], "num_heads": 4},
    "LlamaModel": GROUPED,
    "MambaModel": {"state_size": 4},
    "Mamba2Model": {"num_heads": 4, "head_dim": 16, "n_groups": 1, "state_size": 8},
    "ModernBertModel": SPECIAL,
    "MPNetModel": {},
    "PhiModel": {},
    "Qwen3Model": GROUPED,
    "SwinModel": {**VIT, "embed_dim": 16, "depths": [1, 1], "window_size": 2, **SWIN},
    "T5EncoderModel": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4},
    "ViTModel": VIT,
    "Wav2Vec2Model": {**WAV2VEC2, "num_conv_pos_embedding_groups": 4},
}


def transformer(name: str, **changes):
    """A small model of transformers, and what it reads."""
    kind = getattr(transformers, name)
    config = kind.config_class(**SMALL | changes)
    example = {
        "input_ids": lambda: torch.randint(3, 60, (1, 12)),
        "pixel_values": lambda: torch.randn(1, 3, 32, 32),
        "input_values": lambda: torch.randn(1, 800),
    }
    return kind(config), (example[kind.main_input_name](),)


@pytest.mark.parametrize("family", CLASSIFIERS)
def test_classifiers_of_torchvision(family):
    network = Network(family, lambda: (CLASSIFIERS[family](), (torch.randn(1, 3, 64, 64),)))
    assert graph_of(imported(network)).calls


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_encoders_and_decoders_of_transformers(name):
    network = Network(name, lambda: transformer(name, **TRANSFORMERS[name]))
    assert graph_of(imported(network)).calls


def test_what_of_transformers_is_not_read():
    with pytest.raises(UserError) as error:
        imported(Network("llama", lambda: transformer("LlamaModel", use_cache=True)))
    said = "a DynamicCache: return tensors alone, which transf"
    assert said in str(error.value) and len(str(error.value).splitlines()) == 1


LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_the_zoo_of_onnx(path):
    """Nine networks at full size; all weights of one are equal: what it computes says nothing."""
    assert len([*LIGHT.glob("*.onnx")]) == 9
    assert graph_of(imported(named(str(path), None), runs=False)).calls
