"""Seven well-known transformers models in small: the whole programs that tests and benchmarks run.

    entry = MODELS["gpt2"]
    model = entry.make_model()
    outputs = model(**entry.make_inputs(model))

Weights and inputs are random but the same on every call with the same arguments; nothing is downloaded. Dropout is off,
so train and eval mode compute the same unless `dropout` asks for it.
"""
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

VOCABULARY = 256
KINDS = 10  # that an image can be of
Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Entry:
    """One model: `config(layers, hidden, dropout)` and `inputs(model, batch, length)` make what it needs."""

    kind: type[PreTrainedModel]
    config: Callable[[int, int, float], Any]
    inputs: Callable[[PreTrainedModel, int, int], Inputs]

    def make_model(
        self, layers: int = 2, hidden: int = 64, *, train: bool = False, dropout: float = 0.0,
        attention: str | None = None, seed: int = 0,
    ) -> PreTrainedModel:
        """`attention` is transformers' own name for an implementation ("eager", "sdpa"); None leaves its default."""
        config = self.config(layers, hidden, dropout)
        if attention is not None:
            config._attn_implementation = attention
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.kind(config).train(train)

    def make_inputs(self, model: PreTrainedModel, batch: int = 2, length: int = 16, *, seed: int = 0) -> Inputs:
        """Keyword arguments of `model`, labels included, so that the output has a loss."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.inputs(model, batch, length)


def gpt2(layers: int, hidden: int, dropout: float) -> Any:
    return transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=256, n_embd=hidden, n_layer=layers, n_head=4,
        resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout, bos_token_id=0, eos_token_id=0,
    )


def bert(layers: int, hidden: int, dropout: float) -> Any:
    return transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=4,
        intermediate_size=4 * hidden, max_position_embeddings=256,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )


def llama(layers: int, hidden: int, dropout: float) -> Any:
    return transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=3 * hidden, max_position_embeddings=256, attention_dropout=dropout,
    )


def t5(layers: int, hidden: int, dropout: float) -> Any:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=hidden, num_layers=layers, num_heads=4, d_kv=hidden // 4, d_ff=4 * hidden,
        dropout_rate=dropout,
    )
    config.decoder_start_token_id = 0  # the model shifts the labels right, and puts this in front
    return config


def vit(layers: int, hidden: int, dropout: float) -> Any:
    config = transformers.ViTConfig(
        image_size=32, patch_size=8, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=4,
        intermediate_size=4 * hidden, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )
    config.num_labels = KINDS
    config.problem_type = "single_label_classification"  # else the first call writes it, and the second is another program
    return config


def whisper(layers: int, hidden: int, dropout: float) -> Any:
    return transformers.WhisperConfig(
        vocab_size=VOCABULARY, d_model=hidden, encoder_layers=layers, decoder_layers=layers,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=4 * hidden, decoder_ffn_dim=4 * hidden,
        num_mel_bins=16, max_source_positions=32, max_target_positions=256, dropout=dropout,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )


def mixtral(layers: int, hidden: int, dropout: float) -> Any:
    return transformers.MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=2 * hidden, num_local_experts=4, num_experts_per_tok=2,
        max_position_embeddings=256, attention_dropout=dropout,
    )


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (batch, length))  # the first three are padding, start and end in some models


def next_token(model: PreTrainedModel, batch: int, length: int) -> Inputs:
    ids = tokens(batch, length)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def sequence_to_sequence(model: PreTrainedModel, batch: int, length: int) -> Inputs:
    ids = tokens(batch, length)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": tokens(batch, length // 2)}


def image(model: PreTrainedModel, batch: int, length: int) -> Inputs:
    """An image has its config's size: `length` says nothing here."""
    size = model.config.image_size
    return {"pixel_values": torch.randn(batch, 3, size, size), "labels": torch.randint(KINDS, (batch,))}


def speech(model: PreTrainedModel, batch: int, length: int) -> Inputs:
    """Whisper takes twice as many frames as its encoder has positions, no more and no fewer."""
    config = model.config
    frames = torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions)
    return {"input_features": frames, "labels": tokens(batch, length)}


MODELS: dict[str, Entry] = {
    "gpt2": Entry(transformers.GPT2LMHeadModel, gpt2, next_token),
    "bert": Entry(transformers.BertForMaskedLM, bert, next_token),
    "llama": Entry(transformers.LlamaForCausalLM, llama, next_token),
    "t5": Entry(transformers.T5ForConditionalGeneration, t5, sequence_to_sequence),
    "vit": Entry(transformers.ViTForImageClassification, vit, image),
    "whisper": Entry(transformers.WhisperForConditionalGeneration, whisper, speech),
    "mixtral": Entry(transformers.MixtralForCausalLM, mixtral, next_token),
}
