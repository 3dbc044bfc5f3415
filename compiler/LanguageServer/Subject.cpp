#include "compiler/LanguageServer/Subject.h"

#include "compiler/Binding/CheckpointOracle.h"
#include "compiler/Binding/QuantizedTensors.h"
#include "runtime/File.h"

#include <filesystem>

namespace mbc::compiler {

dsl::Side Subject::known() const {
  bool megatron = checkpoint && checkpoint->format != Format::Safetensors;
  return megatron ? dsl::Side::Megatron : dsl::Side::Hf;
}

dsl::NameOracle Subject::oracle() const {
  if (checkpoint)
    return oracleOf(*checkpoint);
  dsl::NameOracle oracle;
  oracle.known = known();
  return oracle;
}

Result<Subject> openSubject(const std::string &path) {
  Subject subject;
  if (!std::filesystem::is_directory(path)) {
    Result<std::string> text = readWholeFile(path);
    if (!text)
      return std::unexpected(text.error());
    subject.config = std::move(*text);
    return subject;
  }
  Result<Checkpoint> opened = openCheckpoint(path);
  if (!opened)
    return std::unexpected(opened.error());
  subject.config = opened->configJson;
  subject.checkpoint = std::move(*opened);
  if (subject.checkpoint->format == Format::Safetensors)
    nameValues(*subject.checkpoint);
  return subject;
}

} // namespace mbc::compiler
