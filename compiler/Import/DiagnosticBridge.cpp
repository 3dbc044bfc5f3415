#include "compiler/Import/RulesToMap.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace mbc::compiler {
namespace {

/// Messages of a verifier start with the name of an operation, which means
/// little to the author of a spec: "'mb.concat' op part ..." is said as
/// "concat: part ...".
std::string withoutDialect(std::string text) {
  size_t end = text.find("' op ");
  if (text.starts_with("'mb.") && end != std::string::npos)
    return text.substr(4, end - 4) + ": " + text.substr(end + 5);
  return text;
}

} // namespace

DiagnosticBridge::DiagnosticBridge(MLIRContext &context,
                                   const std::vector<RuleClass> &classes,
                                   dsl::Diagnostics &diagnostics)
    : context(context) {
  context.printOpOnDiagnostic(false);
  auto remember = [&](const dsl::SourceRange &where) {
    if (where.file)
      files.emplace(where.file->path, where.file);
  };
  for (const RuleClass &rule : classes) {
    mappings.emplace(rule.mapping->label, rule.mapping);
    remember(rule.mapping->where);
    for (const auto *side : {&rule.mapping->megatron, &rule.mapping->hf})
      for (const dsl::Node &node : *side)
        remember(node.where);
  }
  id = context.getDiagEngine().registerHandler(
      [this, &diagnostics](mlir::Diagnostic &diagnostic) {
        report(diagnostic, diagnostics);
        return success();
      });
}

DiagnosticBridge::~DiagnosticBridge() {
  context.getDiagEngine().eraseHandler(id);
}

dsl::SourceRange DiagnosticBridge::rangeOf(Location location) const {
  dsl::SourceRange range;
  location->walk([&](Location inner) {
    auto place = dyn_cast<FileLineColLoc>(inner);
    if (!place)
      return WalkResult::advance();
    auto file = files.find(place.getFilename().str());
    range.file = file == files.end() ? nullptr : file->second;
    range.line = place.getLine();
    range.column = place.getColumn();
    return WalkResult::interrupt();
  });
  return range;
}

void DiagnosticBridge::report(mlir::Diagnostic &diagnostic,
                              dsl::Diagnostics &diagnostics) const {
  std::string text = withoutDialect(diagnostic.str());
  std::vector<dsl::Note> notes;
  if (auto name = dyn_cast<NameLoc>(diagnostic.getLocation())) {
    text += " (rule of '" + name.getName().str() + "')";
    auto mapping = mappings.find(name.getName().str());
    if (mapping != mappings.end())
      notes = mapping->second->expansion;
  }
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    notes.push_back({rangeOf(note.getLocation()), note.str()});
  dsl::SourceRange where = rangeOf(diagnostic.getLocation());
  if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
    diagnostics.warning(where, std::move(text), std::move(notes));
  else if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
    diagnostics.error(where, std::move(text), std::move(notes));
}

} // namespace mbc::compiler
