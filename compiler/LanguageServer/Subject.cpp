#include "compiler/LanguageServer/Subject.h"

#include "runtime/File.h"

#include <filesystem>

namespace mbc::compiler {

dsl::Side Subject::known() const {
  bool megatron = checkpoint && checkpoint->format != Format::Safetensors;
  return megatron ? dsl::Side::Megatron : dsl::Side::Hf;
}

dsl::NameOracle Subject::oracle() const {
  dsl::NameOracle oracle;
  oracle.known = known();
  if (!checkpoint)
    return oracle;
  oracle.exists = [this](std::string_view name) {
    return checkpoint->find(name) != Checkpoint::none;
  };
  oracle.withPrefix = [this](std::string_view prefix) {
    std::vector<std::string> names;
    for (uint32_t i = 0; i != checkpoint->tensors.size(); ++i)
      if (std::string_view name = checkpoint->tensors[i].name;
          name.starts_with(prefix) && checkpoint->find(name) == i)
        names.emplace_back(name);
    return names;
  };
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
  return subject;
}

} // namespace mbc::compiler
