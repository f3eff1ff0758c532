#include "kv/load.hpp"

#include <memory>
#include <ostream>

#include "kv/model/gguf.hpp"

namespace kv {

LoadedModel load(const std::string& path, std::ostream& warnings) {
  const std::shared_ptr<const GgufFile> file = GgufFile::open(path);
  std::vector<std::string> assumed;
  LoadedModel loaded{load_model(file, &assumed), load_tokenizer(*file)};
  for (const std::string& line : assumed) warnings << "warning: " << line << "\n";
  if (loaded.tokenizer.vocab_size() != loaded.model.config.vocab_size)
    throw InputError(path + ": the tokenizer has " + std::to_string(loaded.tokenizer.vocab_size()) +
                     " tokens but token_embd.weight has " +
                     std::to_string(loaded.model.config.vocab_size) +
                     " rows; convert the model again");
  return loaded;
}

LoadedModel load(const ChapterOptions& options, std::ostream& warnings) {
  LoadedModel loaded = load(options.model, warnings);
  if (options.math == &plain_math()) widen_weights(loaded.model);
  return loaded;
}

GenerationRun start_run(const LoadedModel& loaded, const ChapterOptions& options,
                        std::ostream& out) {
  const std::int64_t trained = loaded.model.config.context_length;
  if (options.context > trained)
    throw InputError("--context: " + std::to_string(options.context) +
                     " tokens are more than the model's " + std::to_string(trained) +
                     "; give at most that");

  GenerateOptions run;
  run.max_tokens = options.max_tokens;
  run.context = options.context > 0 ? options.context : trained;
  run.sampling = options.sampling;
  run.ignore_eos = options.ignore_eos;
  run.num_compared = options.num_compared;
  run.on_text = [&out](std::string_view text) { out << text << std::flush; };
  const Special special = options.special ? Special::on : Special::off;
  return {loaded.tokenizer, loaded.tokenizer.encode(options.prompt, special), run};
}

}  // namespace kv
