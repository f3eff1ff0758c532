// From a path on the command line to a model that is ready to run.
#pragma once

#include <iosfwd>
#include <string>

#include "kv/generate.hpp"
#include "kv/model/tokenizer.hpp"
#include "kv/model/weights.hpp"
#include "kv/report/options.hpp"

namespace kv {

/// A model and the tokenizer that its file carries.
struct LoadedModel {
  Model model;          ///< shape and weights
  Tokenizer tokenizer;  ///< text to tokens and back
};

/// Opens a GGUF file and checks that its tokenizer fits its weights.
///
/// \param path     GGUF file
/// \param warnings receives a line for each default that had to be assumed
/// \throws InputError naming the file and what is wrong with it
LoadedModel load(const std::string& path, std::ostream& warnings);

/// The model of --model, its weights widened when --math is plain.
/// \throws as above
LoadedModel load(const ChapterOptions& options, std::ostream& warnings);

/// Encodes the prompt and prepares the run that the options ask for. The text goes to `out` as it
/// is produced.
///
/// \param loaded  must outlive the run
/// \param options prompt, number of tokens, sampling
/// \param out     receives the text
/// \throws InputError naming the option that does not fit the model
GenerationRun start_run(const LoadedModel& loaded, const ChapterOptions& options,
                        std::ostream& out);

}  // namespace kv
