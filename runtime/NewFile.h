#pragma once

#include "runtime/CompilerInterface.h"
#include "runtime/File.h"
#include "runtime/Result.h"

#include <optional>
#include <string>
#include <string_view>

namespace mbc {

/// A file that takes the place of `path`, and its permissions, once all of it
/// is written. It is begun with its first bytes; on failure nothing has
/// changed.
class NewFile {
public:
  explicit NewFile(std::string path)
      : path_(std::move(path)), temporary_(path_ + ".partial") {}
  NewFile(const NewFile &) = delete;
  ~NewFile();

  void append(std::string_view bytes);
  mbc_sink sink();
  /// Also gives what `append` failed with.
  Result<void> publish();

private:
  Result<OutputFile> create() const;

  std::string path_, temporary_;
  std::optional<OutputFile> file_;
  uint64_t size_ = 0;
  Result<void> written_; ///< the first failure
};

} // namespace mbc
