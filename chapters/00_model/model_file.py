"""A trained model and its tokenizer as a GGUF file of architecture `llama`, and back."""

import torch

import gguf_file
from bpe import Bpe
from llama import Config, Llama

NORMAL, CONTROL = 1, 3  # tokenizer.ggml.token_type


def save(path, model, bpe, name):
    c = model.config
    metadata = {
        "general.architecture": "llama",
        "general.name": name,
        "general.license": "MIT",
        "general.alignment": gguf_file.ALIGNMENT,
        "general.file_type": 1,  # mostly F16
        "llama.context_length": c.context_len,
        "llama.embedding_length": c.d_model,
        "llama.block_count": c.num_layers,
        "llama.feed_forward_length": c.ffn_dim,
        "llama.attention.head_count": c.num_q_heads,
        "llama.attention.head_count_kv": c.num_kv_heads,
        "llama.attention.layer_norm_rms_epsilon": c.rms_eps,
        "llama.rope.dimension_count": c.head_dim,
        "llama.rope.freq_base": c.rope_base,
        "llama.vocab_size": c.vocab_size,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": bpe.tokens,
        "tokenizer.ggml.token_type": [CONTROL] + [NORMAL] * (len(bpe.tokens) - 1),
        "tokenizer.ggml.merges": [" ".join(pair) for pair in bpe.merges],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
    }
    # Matrices are halved; norms stay F32, as is usual: they are tiny and every element uses them.
    # There is no output.weight: a reader then takes token_embd.weight for it.
    tensors = {
        key: (value.half() if value.dim() == 2 else value.float()).numpy()
        for key, value in model.state_dict().items()
    }
    gguf_file.write(path, metadata, tensors)


def load(path):
    """The (model, bpe) of a file that `save` wrote; weights are widened to float32."""
    metadata, tensors = gguf_file.read(path)

    def get(key):
        return metadata[f"llama.{key}"]

    config = Config(
        vocab_size=get("vocab_size"),
        context_len=get("context_length"),
        d_model=get("embedding_length"),
        num_layers=get("block_count"),
        num_q_heads=get("attention.head_count"),
        num_kv_heads=get("attention.head_count_kv"),
        ffn_dim=get("feed_forward_length"),
        rope_base=get("rope.freq_base"),
        rms_eps=get("attention.layer_norm_rms_epsilon"),
    )
    model = Llama(config).eval()
    model.load_state_dict({key: torch.tensor(value).float() for key, value in tensors.items()})
    merges = [tuple(pair.split(" ")) for pair in metadata["tokenizer.ggml.merges"]]
    return model, Bpe(metadata["tokenizer.ggml.tokens"], merges)
