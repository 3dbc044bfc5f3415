#pragma once

#include "compiler/Map/MapOps.h"
#include "compiler/RuleClass.h"

#include <unordered_map>

namespace mbc::compiler {

/// Loads the dialects of the graph into `context`; single-threaded.
void prepareContext(mlir::MLIRContext &context);

/// The MLIR type of an element. Formats without a type of their own (and
/// without arithmetic) are integers of their width.
mlir::Type elementType(mlir::MLIRContext &context, DType dtype);

/// One `mb.rule` a class, @r0, @r1 ... in order. Null if an error was
/// reported; all errors are.
mlir::OwningOpRef<mlir::ModuleOp>
importRules(mlir::MLIRContext &context, const std::vector<RuleClass> &classes);

/// While it lives, errors of `context` go to `diagnostics`, at the line of the
/// spec and with the calls that led there.
class DiagnosticBridge {
public:
  DiagnosticBridge(mlir::MLIRContext &context,
                   const std::vector<RuleClass> &classes,
                   dsl::Diagnostics &diagnostics);
  ~DiagnosticBridge();
  DiagnosticBridge(const DiagnosticBridge &) = delete;

private:
  void report(mlir::Diagnostic &diagnostic,
              dsl::Diagnostics &diagnostics) const;
  dsl::SourceRange rangeOf(mlir::Location location) const;

  std::unordered_map<std::string, std::shared_ptr<const dsl::SourceFile>> files;
  std::unordered_map<std::string, const dsl::Mapping *> mappings; ///< by label
  mlir::MLIRContext &context;
  mlir::DiagnosticEngine::HandlerID id;
};

} // namespace mbc::compiler
