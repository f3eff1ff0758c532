// Any bytes, taken for a GGUF file: opened, loaded as a model, and a bit of every tensor widened.
// Nothing but InputError may come out. The seeds are written by test_gguf_seeds.cpp.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kv/model/dequantize.hpp"
#include "kv/model/gguf.hpp"
#include "kv/model/weights.hpp"

namespace {

/// Runs `use`; an InputError is a right answer, everything else ends the program.
template <typename Use>
void tolerate_input_errors(Use use) {
  try {
    use();
  } catch (const kv::InputError&) {
  }
}

/// Reads a value in every way there is.
void read_every_way(const kv::GgufFile& file, std::string_view key) {
  tolerate_input_errors([&] { file.integer(key); });
  tolerate_input_errors([&] { file.number(key); });
  tolerate_input_errors([&] { file.boolean(key); });
  tolerate_input_errors([&] { file.string(key); });
  tolerate_input_errors([&] { file.integers(key); });
  tolerate_input_errors([&] { file.floats(key); });
  tolerate_input_errors([&] {
    if (const auto texts = file.strings(key))
      for (const std::string_view text : *texts) kv::printable(text);
  });
}

/// Widens the first and the last elements of the first and the last row.
void widen_a_bit(const kv::WeightMatrix& w) {
  std::vector<float> few(static_cast<std::size_t>(std::min<std::int64_t>(w.num_cols, 3)));
  for (const std::int64_t row : {std::int64_t{0}, w.num_rows - 1}) {
    kv::dequantize_range(w, row, 0, few);
    kv::dequantize_range(w, row, w.num_cols - static_cast<std::int64_t>(few.size()), few);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tolerate_input_errors([&] {
    const auto bytes = std::as_bytes(std::span(data, size));
    const std::shared_ptr<const kv::GgufFile> file = kv::GgufFile::from_memory(bytes, "fuzz.gguf");
    for (const kv::GgufValue& value : file->values()) read_every_way(*file, value.key);
    for (const kv::GgufTensor& t : file->tensors())
      widen_a_bit({t.dtype, t.num_rows(), t.row_length(), t.bytes.data()});

    std::vector<std::string> warnings;
    const kv::Model model = kv::load_model(file, &warnings);
    model.weight_bytes();
    model.num_parameters();
    for (const kv::LayerWeights& layer : model.layers)
      for (const kv::WeightMatrix* w :
           {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
        widen_a_bit(*w);
    widen_a_bit(model.output);
  });
  return 0;
}
