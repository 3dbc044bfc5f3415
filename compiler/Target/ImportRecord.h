#pragma once

#include "compiler/Binding/Bind.h"
#include "dsl/Parse.h"

#include <string>

namespace mbc::compiler {

/// The text of `mbc/record.json`: what an import has to leave so that the way
/// back gives the same HF checkpoint.
std::string writeRecord(const BindInput &input, const Binding &binding,
                        const std::string &specName,
                        const std::string &specText);

/// SHA-256 of a spec's bundled text, in hexadecimal digits.
std::string specHash(const std::string &specText);

/// Reads it back. An unknown schema number is an error.
Result<Record> readRecord(const std::string &text);

} // namespace mbc::compiler
