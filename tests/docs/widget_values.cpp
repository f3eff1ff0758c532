// What the widgets' functions answer here, compiled by the host's compiler: to be held against what
// they answer in a page. Reads lines "name number number ..." and prints a JSON object for each.
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "kv/report/json.hpp"

extern "C" {
const char* number_text(double, double);
const char* choices();
const char* calculate_model(double, double, double, double, double, double);
const char* calculate_shape(double, double, double, double, double, double, double, double, double,
                            double);
const char* map_heads(double, double, double, double);
const char* blocks_start(double, double);
const char* blocks_type(double);
const char* blocks_enter();
const char* blocks_append(double);
const char* blocks_fork(double);
const char* blocks_publish(double);
const char* blocks_end(double);
const char* blocks_trace();
const char* softmax_clear();
const char* softmax_add(double, double);
const char* softmax_states(double);
const char* six_digits(double);
const char* roofline_choices();
const char* roofline(double, double, double, double, double, double, double, double);
}

namespace {

template <typename... Numbers, std::size_t... I>
const char* apply(const char* (*function)(Numbers...), const std::vector<double>& given,
                  std::index_sequence<I...>) {
  return function(given[I]...);
}

using Function = std::function<std::string(const std::vector<double>&)>;

template <typename... Numbers>
Function named(const char* (*function)(Numbers...)) {
  return [function](const std::vector<double>& given) -> std::string {
    if (given.size() != sizeof...(Numbers)) return "\"wrong number of arguments\"\n";
    try {
      return apply(function, given, std::index_sequence_for<Numbers...>());
    } catch (const std::exception& error) {
      kv::Json refused = kv::Json::object();
      refused.set("error", error.what());
      return refused.str();
    }
  };
}

const std::map<std::string, Function> functions = {
    {"number_text", named(number_text)},
    {"choices", named(choices)},
    {"calculate_model", named(calculate_model)},
    {"calculate_shape", named(calculate_shape)},
    {"map_heads", named(map_heads)},
    {"blocks_start", named(blocks_start)},
    {"blocks_type", named(blocks_type)},
    {"blocks_enter", named(blocks_enter)},
    {"blocks_append", named(blocks_append)},
    {"blocks_fork", named(blocks_fork)},
    {"blocks_publish", named(blocks_publish)},
    {"blocks_end", named(blocks_end)},
    {"blocks_trace", named(blocks_trace)},
    {"softmax_clear", named(softmax_clear)},
    {"softmax_add", named(softmax_add)},
    {"softmax_states", named(softmax_states)},
    {"six_digits", named(six_digits)},
    {"roofline_choices", named(roofline_choices)},
    {"roofline", named(roofline)},
};

}  // namespace

int main() {
  std::string line, separator = "[\n";
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string name;
    std::vector<double> numbers;
    words >> name;
    for (std::string number; words >> number;)
      numbers.push_back(std::strtod(number.c_str(), nullptr));
    const auto found = functions.find(name);
    if (found == functions.end()) {
      std::cerr << "widget_values: no function '" << name << "'\n";
      return 2;
    }
    std::cout << separator << found->second(numbers);
    separator = ",\n";
  }
  std::cout << "]\n";
}
