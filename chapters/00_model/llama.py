"""The course's model in PyTorch: RMSNorm, RoPE, grouped-query attention, SwiGLU, tied output.

Names follow GGUF's `llama` architecture, so a parameter and its tensor have the same name.
Shapes: B sequences, T tokens, H query heads, G KV heads, D head_dim.

Source: Touvron et al. 2023 (Llama), Su et al. 2021 (RoPE), Ainslie et al. 2023 (GQA).
"""

import dataclasses

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass
class Config:
    vocab_size: int = 1024
    context_len: int = 512
    d_model: int = 256
    num_layers: int = 4
    num_q_heads: int = 8
    num_kv_heads: int = 2  # 1 = MQA, num_q_heads = MHA
    ffn_dim: int = 512
    rope_base: float = 10000.0
    rms_eps: float = 1e-5

    @property
    def head_dim(self):
        return self.d_model // self.num_q_heads

    def validate(self):
        if self.d_model % self.num_q_heads or self.head_dim % 2:
            raise ValueError("d_model must be num_q_heads times an even head_dim")
        if self.num_q_heads % self.num_kv_heads:
            raise ValueError("num_q_heads must be a multiple of num_kv_heads")


class RmsNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        # y = x / sqrt(mean(x^2) + eps) * weight
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rope_tables(config):
    """cos and sin of position * base^(-2i / D): each [context_len, D / 2]."""
    i = torch.arange(0, config.head_dim, 2, dtype=torch.float64)
    angles = torch.arange(config.context_len)[:, None] * config.rope_base ** (-i / config.head_dim)
    return angles.cos().float(), angles.sin().float()


def rope(x, cos, sin):
    """Rotates the pairs (2i, 2i + 1) of x [B, T, heads, D]: the interleaved pairing of GGUF's
    `llama`. Files for the other pairing (halves) hold their rows of attn_q and attn_k permuted."""
    cos, sin = cos[: x.shape[1], None], sin[: x.shape[1], None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class Layer(nn.Module):
    def __init__(self, config, dropout):
        super().__init__()
        self.config, self.dropout = config, dropout
        kv_dim = config.num_kv_heads * config.head_dim

        def linear(in_dim, out_dim):
            return nn.Linear(in_dim, out_dim, bias=False)

        self.attn_norm = RmsNorm(config.d_model, config.rms_eps)
        self.attn_q = linear(config.d_model, config.d_model)
        self.attn_k = linear(config.d_model, kv_dim)
        self.attn_v = linear(config.d_model, kv_dim)
        self.attn_output = linear(config.d_model, config.d_model)
        self.ffn_norm = RmsNorm(config.d_model, config.rms_eps)
        self.ffn_gate = linear(config.d_model, config.ffn_dim)
        self.ffn_up = linear(config.d_model, config.ffn_dim)
        self.ffn_down = linear(config.ffn_dim, config.d_model)

    def attention(self, x, cos, sin, mask):
        c, (B, T, _) = self.config, x.shape
        G, R, D = c.num_kv_heads, c.num_q_heads // c.num_kv_heads, c.head_dim

        q = rope(self.attn_q(x).view(B, T, c.num_q_heads, D), cos, sin)
        k = rope(self.attn_k(x).view(B, T, G, D), cos, sin)
        v = self.attn_v(x).view(B, T, G, D)

        # Query heads g * R ... g * R + R - 1 read KV head g. Stacking their rows gives one product
        # per KV head, without copying K and V once per query head.
        q = q.view(B, T, G, R, D).permute(0, 2, 3, 1, 4).reshape(B, G, R * T, D)
        scores = (q * D**-0.5) @ k.permute(0, 2, 3, 1)  # [B, G, R * T, T]
        weights = (scores.view(B, G, R, T, T) + mask).softmax(-1)
        out = weights.view(B, G, R * T, T) @ v.transpose(1, 2)  # [B, G, R * T, D]
        out = out.view(B, G, R, T, D).permute(0, 3, 1, 2, 4).reshape(B, T, c.d_model)
        return self.attn_output(out)

    def forward(self, x, cos, sin, mask):
        # Dropout sits only where a sublayer is added: inside attention it would cost [T, T] random
        # numbers per head, more time than the products on a CPU.
        y = self.attention(self.attn_norm(x), cos, sin, mask)
        x = x + F.dropout(y, self.dropout, self.training)
        y = self.ffn_norm(x)
        y = self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y))
        return x + F.dropout(y, self.dropout, self.training)


class Llama(nn.Module):
    def __init__(self, config, dropout=0.0):
        super().__init__()
        config.validate()
        self.config, self.dropout = config, dropout
        self.token_embd = nn.Embedding(config.vocab_size, config.d_model)
        self.blk = nn.ModuleList(Layer(config, dropout) for _ in range(config.num_layers))
        self.output_norm = RmsNorm(config.d_model, config.rms_eps)

        cos, sin = rope_tables(config)
        mask = torch.full((config.context_len, config.context_len), -torch.inf).triu(1)
        for name, table in (("cos", cos), ("sin", sin), ("mask", mask)):
            self.register_buffer(name, table, persistent=False)  # computed, so not in the file

        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # The two matrices that write into the residual stream start smaller: it sums
                # 2 * num_layers of them (Radford et al. 2019).
                writes = name.endswith(("attn_output.weight", "ffn_down.weight"))
                scale = (2 * config.num_layers) ** -0.5 if writes else 1.0
                nn.init.normal_(parameter, std=0.02 * scale)

    def forward(self, tokens):
        """tokens [B, T] -> logits [B, T, vocab_size]; T at most context_len."""
        T = tokens.shape[1]
        x = F.dropout(self.token_embd(tokens), self.dropout, self.training)
        for layer in self.blk:
            x = layer(x, self.cos, self.sin, self.mask[:T, :T])
        return F.linear(self.output_norm(x), self.token_embd.weight)  # tied output


@torch.no_grad()
def generate(model, prompt, num_new, temperature=0.0, seed=0):
    """num_new ids after the ids of `prompt`; temperature 0 takes the largest logit. The whole
    prefix runs again for each token: the loop that the rest of the course makes faster."""
    model.eval()
    random = torch.Generator().manual_seed(seed)
    tokens = list(prompt)
    for _ in range(num_new):
        logits = model(torch.tensor([tokens]))[0, -1]
        if temperature == 0.0:
            tokens.append(int(logits.argmax()))
        else:
            weights = (logits / temperature).softmax(-1)
            tokens.append(int(torch.multinomial(weights, 1, generator=random)))
    return tokens[len(prompt) :]
