"""Models of all families in very small: the rows that `tools/models` and tests/models/test_families.py run.

    model = FAMILIES["llama"]
    module = model.make()
    outputs = module(**model.inputs(module))

A row names a class of a package and the sizes that its own defaults are too large for. Weights and inputs are random,
but the same on every call; nothing is downloaded. A package that is not installed is looked for when a row is made.
"""
from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Inputs = dict[str, Any]
VOCABULARY, LENGTH, BATCH, KINDS, IMAGE = 99, 12, 2, 5, 32
HUGGING, GEOMETRIC, DIFFUSERS = "transformers", "torch_geometric", "diffusers"
#: Sizes that most language models call so.
TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}
DECODER: dict[str, Any] = TEXT | {"num_key_value_heads": 2, "head_dim": 8}
BOTH: dict[str, Any] = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": None,
}
T5: dict[str, Any] = {
    "vocab_size": VOCABULARY, "d_model": 32, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 64,
    "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
}
PATCHES: dict[str, Any] = {
    "image_size": IMAGE, "patch_size": 8, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "num_labels": KINDS, "problem_type": "single_label_classification",
}
IMAGES: dict[str, Any] = {"num_labels": KINDS, "problem_type": "single_label_classification"}
WAVES: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 32,
    "conv_dim": (16, 16, 16), "conv_stride": (4, 2, 2), "conv_kernel": (8, 4, 4), "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0, "layerdrop": 0.0,
    "num_codevectors_per_group": 8, "pad_token_id": 0,
}  # fmt: skip
TOWER: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
SEES: dict[str, Any] = TOWER | {"image_size": IMAGE, "patch_size": 8}
READS: dict[str, Any] = TEXT | {"projection_dim": 16}
UNET: dict[str, Any] = {
    "sample_size": 16, "block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Model:
    """One row: `module` and `arguments` make what a call needs, from `package`. `generates`: it has a `generate`.
    `sets_up`: its very first call installs hooks, under a lock, which is a graph break; later ones are another program."""

    package: str
    module: Callable[[], nn.Module]
    arguments: Callable[[nn.Module], Inputs]
    generates: bool = False
    sets_up: bool = False

    def make(self) -> nn.Module:
        """Nothing in it is zero: norms of zeros would make anything of the last bit."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            made = self.module()
            for parameter in made.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.02)
            return made

    def inputs(self, module: nn.Module, seed: int = 0) -> Inputs:
        """Keyword arguments of `module`; other values for another seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.arguments(module)


def named(package: str, name: str) -> Any:
    """`package:name` imported: a part of a package after a dot of `package`."""
    return getattr(importlib.import_module(package), name)


def of_transformers(
    name: str, arguments: Callable[[nn.Module], Inputs], generates: bool = False, sets_up: bool = False, **sizes: Any
) -> Model:
    def module() -> nn.Module:
        kind = named(HUGGING, name)
        return kind(kind.config_class(**sizes))

    return Model(HUGGING, module, arguments, generates, sets_up)


def decoder(name: str, **sizes: Any) -> Model:
    return of_transformers(name, causal, True, **(DECODER | sizes))


def encoder(name: str, **sizes: Any) -> Model:
    return of_transformers(name, causal, **(TEXT | sizes))


def of_graphs(name: str, **sizes: Any) -> Model:
    """A whole network of `torch_geometric.nn`, on one random graph."""
    return Model(GEOMETRIC, lambda: named("torch_geometric.nn", name)(16, 32, 2, KINDS, **sizes), nodes)


def of_diffusers(name: str, arguments: Callable[[nn.Module], Inputs], **sizes: Any) -> Model:
    return Model(DIFFUSERS, lambda: named(DIFFUSERS, name)(**sizes), arguments)


# --- inputs -----------------------------------------------------------------------------------------------------------
def tokens(length: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, length))  # the first three are padding, start and end


def causal(module: nn.Module) -> Inputs:
    ids = tokens()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def both(module: nn.Module) -> Inputs:
    ids = tokens()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": tokens(LENGTH // 2)}


def image(size: int = IMAGE) -> torch.Tensor:
    return torch.randn(BATCH, 3, size, size)


def classified(module: nn.Module) -> Inputs:
    return {"pixel_values": image(), "labels": torch.randint(KINDS, (BATCH,))}


def normed(module: nn.Module) -> Inputs:
    """Images large enough for batch norms: of two values next to each other, rounding makes others."""
    return {"pixel_values": image(4 * IMAGE), "labels": torch.randint(KINDS, (BATCH,))}


def seen(module: nn.Module) -> Inputs:
    return {"pixel_values": image()}


def segmented(module: nn.Module) -> Inputs:
    return {"pixel_values": image(), "labels": torch.randint(KINDS, (BATCH, IMAGE, IMAGE))}


def heard(module: nn.Module) -> Inputs:
    return {"input_values": torch.randn(BATCH, 400), "labels": torch.randint(2, (BATCH,))}


def spoken(module: nn.Module) -> Inputs:
    return {"input_values": torch.randn(BATCH, 400), "labels": torch.randint(1, 32, (BATCH, 4))}


def mel(module: nn.Module) -> Inputs:
    config: Any = module.config
    return {"input_features": torch.randn(BATCH, config.num_mel_bins, 2 * config.max_source_positions),
            "labels": tokens()}  # fmt: skip


def spectrogram(module: nn.Module) -> Inputs:
    config: Any = module.config
    return {"input_values": torch.randn(BATCH, config.max_length, config.num_mel_bins),
            "labels": torch.randint(KINDS, (BATCH,))}  # fmt: skip


def pairs(module: nn.Module) -> Inputs:
    ids = tokens()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": image(), "return_loss": True}


def asked(module: nn.Module) -> Inputs:
    """A question about an image."""
    ids = tokens()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": image()}


def captioned(module: nn.Module) -> Inputs:
    """Text that holds the place of each patch of the image."""
    config: Any = module.config
    count = (IMAGE // 8) ** 2
    ids = torch.cat([torch.full((BATCH, count), config.image_token_id), tokens()], 1)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": image(), "labels": ids.clone()}


def series(module: nn.Module) -> Inputs:
    config: Any = module.config
    return {"past_values": torch.randn(BATCH, config.context_length, config.num_input_channels),
            "future_values": torch.randn(BATCH, config.prediction_length, config.num_input_channels)}  # fmt: skip


def steps(module: nn.Module) -> Inputs:
    """States, actions and rewards."""
    config: Any = module.config
    return {
        "states": torch.randn(BATCH, 6, config.state_dim), "actions": torch.randn(BATCH, 6, config.act_dim),
        "rewards": torch.randn(BATCH, 6, 1), "returns_to_go": torch.randn(BATCH, 6, 1),
        "timesteps": torch.arange(6).expand(BATCH, 6), "attention_mask": torch.ones(BATCH, 6),
    }  # fmt: skip


def nodes(module: nn.Module) -> Inputs:
    return {"x": torch.randn(20, 16), "edge_index": torch.randint(20, (2, 60))}


def noisy(module: nn.Module) -> Inputs:
    return {"sample": torch.randn(BATCH, 3, 16, 16), "timestep": torch.tensor(7)}


def noisy_and_told(module: nn.Module) -> Inputs:
    return {"sample": torch.randn(BATCH, 4, 16, 16), "timestep": torch.tensor(7),
            "encoder_hidden_states": torch.randn(BATCH, 5, 16)}  # fmt: skip


def latent(module: nn.Module) -> Inputs:
    return {"hidden_states": torch.randn(BATCH, 4, 16, 16), "timestep": torch.tensor([7, 3]),
            "class_labels": torch.tensor([1, 2])}  # fmt: skip


def latent_and_told(module: nn.Module) -> Inputs:
    return {"hidden_states": torch.randn(BATCH, 4, 16, 16), "timestep": torch.tensor([7, 3]),
            "encoder_hidden_states": torch.randn(BATCH, 5, 32), "pooled_projections": torch.randn(BATCH, 64)}  # fmt: skip


def pictures(module: nn.Module) -> Inputs:
    return {"sample": torch.randn(BATCH, 3, 16, 16)}


# --- the table --------------------------------------------------------------------------------------------------------
MOE: dict[str, Any] = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
FAMILIES: dict[str, Model] = {
    # decoders
    "gpt2": decoder("GPT2LMHeadModel"),
    "gpt_neo": decoder("GPTNeoForCausalLM", num_layers=2, attention_types=[[["global", "local"], 1]], window_size=4),
    "gpt_neox": decoder("GPTNeoXForCausalLM"),
    "gptj": decoder("GPTJForCausalLM", rotary_dim=4),
    "opt": decoder("OPTForCausalLM", ffn_dim=64, word_embed_proj_dim=32),
    "bloom": decoder("BloomForCausalLM"),
    "falcon": of_transformers("FalconForCausalLM", causal, True, **TEXT),
    "llama": decoder("LlamaForCausalLM"),
    "mistral": decoder("MistralForCausalLM", sliding_window=8),
    "gemma2": decoder("Gemma2ForCausalLM", sliding_window=8),
    "gemma3": decoder("Gemma3ForCausalLM", sliding_window=8),
    "qwen2": decoder("Qwen2ForCausalLM"),
    "qwen3": decoder("Qwen3ForCausalLM"),
    "phi3": decoder("Phi3ForCausalLM"),
    "olmo2": decoder("Olmo2ForCausalLM"),
    "cohere": decoder("CohereForCausalLM"),
    # mixtures of experts
    "mixtral": decoder("MixtralForCausalLM", num_local_experts=4),
    "qwen2_moe": decoder("Qwen2MoeForCausalLM", num_experts=4, shared_expert_intermediate_size=16, **MOE),
    "deepseek_v3": decoder(
        "DeepseekV3ForCausalLM", n_routed_experts=4, n_group=2, topk_group=1, kv_lora_rank=16, q_lora_rank=16,
        qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, first_k_dense_replace=1, num_key_value_heads=4, **MOE,
    ),
    "gpt_oss": decoder("GptOssForCausalLM", num_local_experts=4, num_experts_per_tok=2, sliding_window=8),
    "switch": of_transformers(
        "SwitchTransformersForConditionalGeneration", both, True, num_experts=4, num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1, expert_capacity=8, **T5,
    ),
    # state spaces
    "mamba": decoder("MambaForCausalLM", state_size=4, time_step_rank=4),
    "mamba2": decoder("Mamba2ForCausalLM", state_size=8, num_heads=8, head_dim=8, n_groups=2, chunk_size=8),
    "rwkv": decoder("RwkvForCausalLM", attention_hidden_size=32, context_length=64),
    "recurrent_gemma": decoder("RecurrentGemmaForCausalLM", num_hidden_layers=3, lru_width=32, attention_window_size=8),
    "jamba": decoder("JambaForCausalLM", num_experts=4, mamba_dt_rank=4, mamba_d_state=4, num_hidden_layers=4,
                     attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, use_mamba_kernels=False),
    # encoders
    "bert": encoder("BertForMaskedLM"),
    "roberta": encoder("RobertaForMaskedLM"),
    "distilbert": encoder("DistilBertForMaskedLM", dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    "albert": encoder("AlbertForMaskedLM", embedding_size=16),
    "electra": encoder("ElectraForMaskedLM", embedding_size=16),
    "deberta_v2": encoder("DebertaV2ForMaskedLM", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "modernbert": encoder("ModernBertForMaskedLM", local_attention=8, global_attn_every_n_layers=2),
    "longformer": encoder("LongformerForMaskedLM", attention_window=4),
    "fnet": of_transformers("FNetForMaskedLM", lambda m: {"input_ids": tokens(), "labels": tokens()}, **TEXT),
    "funnel": of_transformers("FunnelForMaskedLM", causal, vocab_size=VOCABULARY, block_sizes=[1, 1], d_model=32, n_head=4,
                              d_head=8, d_inner=64, cls_token_id=1, pad_token_id=0),
    # encoder-decoders
    "t5": of_transformers("T5ForConditionalGeneration", both, True, **T5),
    "longt5": of_transformers("LongT5ForConditionalGeneration", both, True, local_radius=3, **T5),
    "bart": of_transformers("BartForConditionalGeneration", both, True, **BOTH),
    "pegasus": of_transformers("PegasusForConditionalGeneration", both, True, **BOTH),
    "m2m_100": of_transformers("M2M100ForConditionalGeneration", both, True, **BOTH),
    "led": of_transformers("LEDForConditionalGeneration", both, True, attention_window=4, max_encoder_position_embeddings=64,
                           max_decoder_position_embeddings=64, **BOTH),
    # vision
    "vit": of_transformers("ViTForImageClassification", classified, **PATCHES),
    "deit": of_transformers("DeiTForImageClassification", classified, **PATCHES),
    "dinov2": of_transformers("Dinov2ForImageClassification", classified, **PATCHES),
    "beit": of_transformers("BeitForImageClassification", classified, **PATCHES),
    "swin": of_transformers("SwinForImageClassification", classified, image_size=IMAGE, patch_size=4, embed_dim=16,
                            depths=[1, 1], num_heads=[2, 4], window_size=4, **IMAGES),
    "convnext": of_transformers("ConvNextForImageClassification", classified, hidden_sizes=[8, 16, 16, 32],
                                depths=[1, 1, 1, 1], **IMAGES),
    "resnet": of_transformers("ResNetForImageClassification", classified, embedding_size=8, hidden_sizes=[16, 32],
                              depths=[1, 1], layer_type="basic", **IMAGES),
    # Not ReLU6: where a value is next to a kink, rounding chooses the gradient.
    "mobilenet_v2": of_transformers("MobileNetV2ForImageClassification", normed, depth_multiplier=0.35, hidden_act="silu",
                                    **IMAGES),
    "efficientnet": of_transformers("EfficientNetForImageClassification", normed, width_coefficient=0.25,
                                    depth_coefficient=0.3, hidden_dim=320, **IMAGES),
    "segformer": of_transformers("SegformerForSemanticSegmentation", segmented, sets_up=True, num_encoder_blocks=2, depths=[1, 1],
                                 sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
                                 num_attention_heads=[2, 4], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=KINDS),
    "yolos": of_transformers("YolosForObjectDetection", seen, **(PATCHES | {"image_size": [IMAGE, IMAGE]}),
                             num_detection_tokens=4),
    # audio
    "whisper": of_transformers("WhisperForConditionalGeneration", mel, True, num_mel_bins=16, max_source_positions=32,
                               max_target_positions=64, **BOTH),
    "wav2vec2": of_transformers("Wav2Vec2ForCTC", spoken, **WAVES),
    "hubert": of_transformers("HubertForSequenceClassification", heard, sets_up=True, **WAVES),
    "wavlm": of_transformers("WavLMForSequenceClassification", heard, sets_up=True, **WAVES),
    "ast": of_transformers("ASTForAudioClassification", spectrogram, **(PATCHES | {"max_length": 32, "num_mel_bins": 16})),
    "encodec": of_transformers("EncodecModel", lambda m: {"input_values": torch.randn(BATCH, 1, 320)}, num_filters=4,
                               hidden_size=16, upsampling_ratios=[4, 2], codebook_size=16, codebook_dim=16,
                               num_lstm_layers=1, target_bandwidths=[24.0], sampling_rate=8000),
    # several kinds of input
    "clip": of_transformers("CLIPModel", pairs, text_config=READS, vision_config=SEES, projection_dim=16),
    "siglip": of_transformers("SiglipModel", pairs, text_config=READS, vision_config=SEES),
    "blip": of_transformers("BlipForQuestionAnswering", lambda m: asked(m) | {"labels": tokens()}, text_config=READS |
                            {"encoder_hidden_size": 32}, vision_config=SEES, projection_dim=16),
    "vilt": of_transformers("ViltModel", asked, **(TEXT | PATCHES)),
    "llava": of_transformers("LlavaForConditionalGeneration", captioned, True, sets_up=True, text_config=DECODER | {"model_type": "llama"},
                             vision_config=SEES | {"model_type": "clip_vision_model"}, image_token_index=98,
                             image_seq_length=16, vision_feature_layer=-1),
    "paligemma": of_transformers("PaliGemmaForConditionalGeneration", captioned, True, image_token_index=98,
                                 text_config=DECODER | {"model_type": "gemma"}, projection_dim=32,
                                 vision_config=SEES | {"model_type": "siglip_vision_model", "vision_use_head": False}),
    # series
    "patchtst": of_transformers("PatchTSTForPrediction", series, context_length=32, prediction_length=4, patch_length=4,
                                patch_stride=4, num_input_channels=2, d_model=16, ffn_dim=32, num_hidden_layers=2,
                                num_attention_heads=4),
    "decision": of_transformers("DecisionTransformerModel", steps, state_dim=5, act_dim=3, hidden_size=32, n_layer=2,
                                n_head=4, max_ep_len=32),
    # graphs
    "GCN": of_graphs("GCN"),
    "GAT": of_graphs("GAT", heads=2),
    "GATv2": of_graphs("GAT", heads=2, v2=True),
    "GraphSAGE": of_graphs("GraphSAGE"),
    "GIN": of_graphs("GIN"),
    "PNA": of_graphs("PNA", aggregators=["mean", "max", "std"], scalers=["identity", "attenuation"],
                     deg=torch.tensor([1, 2, 5, 6, 4, 2])),
    "EdgeCNN": of_graphs("EdgeCNN"),
    # diffusion
    "unet_2d": of_diffusers("UNet2DModel", noisy, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                            up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8, **UNET),
    "unet_2d_condition": of_diffusers(
        "UNet2DConditionModel", noisy_and_told, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=16, attention_head_dim=4, **UNET,
    ),
    "dit": of_diffusers("DiTTransformer2DModel", latent, num_attention_heads=2, attention_head_dim=16, num_layers=2,
                        sample_size=16, num_embeds_ada_norm=10, norm_num_groups=4),
    "sd3": of_diffusers("SD3Transformer2DModel", latent_and_told, sample_size=16, patch_size=2, in_channels=4, num_layers=2,
                        attention_head_dim=8, num_attention_heads=4, joint_attention_dim=32, caption_projection_dim=32,
                        pooled_projection_dim=64, out_channels=4, pos_embed_max_size=16),
    "vae": of_diffusers("AutoencoderKL", pictures, block_out_channels=(16, 32), norm_num_groups=8,
                        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
                        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D")),
    "vq": of_diffusers("VQModel", pictures, block_out_channels=(16, 32), norm_num_groups=8, num_vq_embeddings=16,
                       down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
                       up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D")),
}  # fmt: skip

#: Of those that are not one graph (in the way named after them, or in all): what keeps them from it.
BREAKS: dict[str, str] = {
    "switch": "each expert that a router chose runs in a Python loop, over what `nonzero` finds",
    "wav2vec2": "CTC: labels taken by a mask, lengths are tensors",
    "m2m_100 training": "LayerDrop: `if` on a random number whether a layer runs",
}
