#include "kv/report/report.hpp"

#include <fmt/format.h>

#include <iostream>
#include <stdexcept>

#include "kv/report/course_table.hpp"
#include "kv/report/json.hpp"
#include "kv/report/output_file.hpp"
#include "kv/report/table.hpp"

namespace kv {

namespace {

std::string_view finish_reason(FinishReason reason) {
  return reason == FinishReason::stop ? "stop" : "length";
}

std::string line(std::string_view label, std::string_view value) {
  return fmt::format("{:<24}{}\n", label, value);
}

std::string agreement_text(const std::optional<Agreement>& agreement) {
  if (!agreement) return "nothing to compare with";
  const auto compared = static_cast<std::int64_t>(agreement->steps.size());
  return fmt::format("{}largest logit difference {:.2g} (bound {:.2g}), {} of {} tokens equal{}",
                     agreement->within_bound() ? "" : "NONE: ", agreement->max_logit_difference,
                     agreement->bound, agreement->tokens_equal, compared,
                     compared < agreement->num_steps
                         ? fmt::format(" ({} of {} steps compared)", compared, agreement->num_steps)
                         : "");
}

std::int64_t kv_bytes_read(const ChapterReport& report) {
  return report.kv_bytes_read.value_or(report.run.work().kv_bytes_read);
}

CourseRow course_row(const ChapterReport& report) {
  CourseRow row;
  row.chapter = report.chapter;
  row.change = report.change;
  if (report.agreement) {
    row.tokens_equal = report.agreement->tokens_equal;
    row.num_compared = static_cast<std::int64_t>(report.agreement->steps.size());
    row.max_logit_difference = report.agreement->max_logit_difference;
  }
  row.rows = report.run.work().rows;
  row.kv_bytes_held = report.kv_bytes_held;
  if (const auto num_output = static_cast<std::int64_t>(report.run.output.size()); num_output > 0)
    row.kv_bytes_read_per_token = kv_bytes_read(report) / num_output;
  row.ttft_ms = report.run.ttft_ms();
  row.tpot_ms = report.run.tpot_ms();
  return row;
}

}  // namespace

std::string report_text(const ChapterReport& report) {
  const Generation& run = report.run;
  std::string text = fmt::format("--- report of {} ---\n", report.chapter);
  text += line("model", report.model);
  text += line("device", report.device);
  text += line("math", report.math);
  text += line("tokens", fmt::format("{} prompt + {} output ({})", run.prompt.size(),
                                     run.output.size(), run.finish_detail));
  text += line("rows through the model", with_thousands(run.work().rows));
  text += line("KV bytes per token", with_thousands(report.kv_bytes_per_token));
  text += line("KV bytes held", with_thousands(report.kv_bytes_held));
  text += line("agreement", agreement_text(report.agreement));
  text += line("TTFT", fmt::format("{:.2f} ms", run.ttft_ms()));
  text += line("TPOT", fmt::format("{:.2f} ms", run.tpot_ms()));
  text += line("tokens/s", fmt::format("{:.1f}", run.tokens_per_second()));
  return text;
}

std::string report_json(const ChapterReport& report) {
  const Generation& run = report.run;
  const Work work = run.work();
  Json json = Json::object();
  json.set("chapter", report.chapter).set("model", report.model).set("device", report.device);
  json.set("math", report.math);
  json.set("threads", report.threads);
  json.set("text", run.text);
  json.set("prompt_tokens", Json::array_of(run.prompt));
  json.set("output_tokens", Json::array_of(run.output));
  json.set("finish_reason", finish_reason(run.finish)).set("finish_detail", run.finish_detail);
  json.set("rows", work.rows).set("scores", work.scores);
  json.set("kv_bytes_written", work.kv_bytes_written).set("kv_bytes_read", kv_bytes_read(report));
  json.set("kv_bytes_per_token", report.kv_bytes_per_token);
  json.set("kv_bytes_held", report.kv_bytes_held);
  if (report.agreement) {
    const Agreement& a = *report.agreement;
    Json agreement = Json::object();
    agreement.set("steps_compared", static_cast<std::int64_t>(a.steps.size()));
    agreement.set("tokens_equal", a.tokens_equal);
    agreement.set("max_logit_difference", a.max_logit_difference).set("bound", a.bound);
    json.set("agreement", std::move(agreement));
  } else {
    json.set("agreement", Json());
  }
  json.set("ttft_ms", run.ttft_ms()).set("tpot_ms", run.tpot_ms());
  json.set("tokens_per_second", run.tokens_per_second());
  return json.str();
}

std::string report_csv(const ChapterReport& report) {
  const Generation& run = report.run;
  const auto number = [](auto value) { return fmt::format("{}", value); };
  const bool compared = report.agreement.has_value();
  std::vector<std::string> names, values;
  const auto add = [&](const char* name, std::string value) {
    names.emplace_back(name);
    values.push_back(std::move(value));
  };
  add("chapter", report.chapter);
  add("model", report.model);
  add("device", report.device);
  add("math", std::string(report.math));
  add("prompt_tokens", number(run.prompt.size()));
  add("output_tokens", number(run.output.size()));
  add("finish_reason", std::string(finish_reason(run.finish)));
  add("rows", number(run.work().rows));
  add("kv_bytes_per_token", number(report.kv_bytes_per_token));
  add("kv_bytes_held", number(report.kv_bytes_held));
  add("max_logit_difference", compared ? number(report.agreement->max_logit_difference) : "");
  add("tokens_equal", compared ? number(report.agreement->tokens_equal) : "");
  add("steps_compared", compared ? number(report.agreement->steps.size()) : "");
  add("ttft_ms", number(run.ttft_ms()));
  add("tpot_ms", number(run.tpot_ms()));
  add("tokens_per_second", number(run.tokens_per_second()));
  return csv_row(names) + csv_row(values);
}

void publish(const ChapterReport& report, const ChapterOptions& options) {
  // The text and the chapter's own tables end in the middle of a line.
  std::cout << "\n\n" << report_text(report) << std::flush;
  if (!options.json.empty()) write_file_atomically("--json", options.json, report_json(report));
  if (!options.csv.empty()) write_file_atomically("--csv", options.csv, report_csv(report));
  if (!options.table.empty()) add_to_course_table("--table", options.table, course_row(report));
  if (report.agreement && !report.agreement->within_bound())
    throw std::runtime_error("the logits differ from the previous chapter's by more than rounding");
}

}  // namespace kv
