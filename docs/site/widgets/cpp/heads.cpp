// Which KV head each query head reads, and what sharing leaves of the cache.
#include "kv/config.hpp"
#include "kv/cost/kv_bytes.hpp"
#include "widget.hpp"

using namespace kv;

/// \param num_q_heads, num_kv_heads of one layer
/// \param head_dim, num_layers of the model whose bytes are counted, in fp16
KV_WIDGET(map_heads)(double num_q_heads, double num_kv_heads, double head_dim, double num_layers) {
  const HeadConfig heads{static_cast<int>(whole(num_q_heads, "query heads", 1, 1024)),
                         static_cast<int>(whole(num_kv_heads, "KV heads", 1, 1024)),
                         static_cast<int>(whole(head_dim, "head_dim", 1, 65536))};
  heads.validate();
  KvShape shape;
  shape.num_layers = static_cast<int>(whole(num_layers, "layers", 1, 100000));
  shape.head_dim = heads.head_dim;
  const auto bytes = [&](int num_heads) {
    shape.num_kv_heads = num_heads;
    return kv_bytes_per_token(shape, kv_format("fp16")).total();
  };
  Json map = Json::array();
  for (int h = 0; h < heads.num_q_heads; ++h) map.push(heads.kv_head(h));
  Json json = Json::object();
  json.set("group_size", heads.group_size()).set("kv_head", std::move(map));
  json.set("bytes_per_token", bytes(heads.num_kv_heads));
  json.set("bytes_per_token_unshared", bytes(heads.num_q_heads));
  return answer(json);
}
