// What the course's C++ looks like to a page: functions of numbers that answer with JSON.
#pragma once

#include "kv/cost/kv_bytes.hpp"
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

/// A number from a page as a count.
/// \throws InputError naming `what` unless it is whole and between `least` and `most`
std::int64_t whole(double value, const char* what, double least, double most);

/// A number from a page as an index into a list of `size` entries.
/// \throws InputError naming `what` unless it is one
std::size_t index(double value, const char* what, std::size_t size);

/// The number format that a page has chosen by its place in kv_formats().
/// \throws InputError naming `what` unless it is one
const KvFormat& format_at(double value, const char* what);

}  // namespace kv
