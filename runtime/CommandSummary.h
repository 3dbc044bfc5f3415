#pragma once

#include "runtime/Executor.h"

namespace mbc {

/// A finished run in words, or as one JSON document, on standard output.
void printRun(const plan::Plan &plan, const RunSummary &summary, bool verbose);
void printRunJson(const plan::Plan &plan, const RunSummary &summary);

/// What went wrong, as `mbc check --json` says it.
void printFailureJson(std::string_view text);

/// What a person should know of the plan and of its run, on standard error.
void printNotes(const plan::Plan &plan, const std::vector<std::string> &notes);

/// What a plan would do: files, bytes, ranks, classes. `memory` is the bound on
/// buffers in bytes, 0 if none was asked for.
void printPlan(const plan::Plan &plan, uint64_t memory);
void printPlanJson(const plan::Plan &plan, uint64_t memory);

} // namespace mbc
