// What the course's C++ looks like to a page: functions of numbers that answer with JSON.
#pragma once

#include "kv/report/json.hpp"

/// A function that pages call: KV_WIDGET(name)(double a, double b) { ... return kv::answer(json); }
#ifdef __wasm__
#define KV_WIDGET(name) extern "C" __attribute__((used, export_name(#name))) const char* name
#else
#define KV_WIDGET(name) extern "C" const char* name
#endif

namespace kv {

/// Keeps the text of an answer until the next one.
const char* answer(const Json& json);

/// A number from a page as an index or a count.
/// \throws InputError naming `what` unless it is whole and between `least` and `most`
std::int64_t whole(double value, const char* what, double least, double most);

}  // namespace kv
