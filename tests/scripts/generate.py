"""Generates text with a small language model of transformers: greedy, drawn, and with beams."""
import torch
from rounds import rounds
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    torch.manual_seed(3)
    config = LlamaConfig(vocab_size=120, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                         bos_token_id=1, eos_token_id=None, pad_token_id=0)
    model = LlamaForCausalLM(config).eval()
    prompt = torch.arange(2, 14).view(2, 6)
    mask = torch.ones_like(prompt)
    for number in rounds(6):
        greedy = model.generate(prompt, attention_mask=mask, max_new_tokens=24, do_sample=False)
        print("greedy", greedy[:, 6:].tolist())
        torch.manual_seed(number)
        drawn = model.generate(prompt, attention_mask=mask, max_new_tokens=16, do_sample=True, top_k=20)
        print("drawn", drawn[:, 6:].tolist())
        beams = model.generate(prompt, attention_mask=mask, max_new_tokens=8, num_beams=3)
        print("beams", beams[:, 6:].tolist())


if __name__ == "__main__":
    main()
