#include "runtime/NewFile.h"

#include <filesystem>

namespace mbc {

NewFile::~NewFile() {
  std::error_code error;
  if (file_)
    std::filesystem::remove(temporary_, error);
}

void NewFile::append(std::string_view bytes) {
  if (!file_ && written_) {
    Result<OutputFile> created = create();
    if (created)
      file_ = std::move(*created);
    else
      written_ = std::unexpected(created.error());
  }
  if (written_)
    written_ = file_->writeAt(size_, bytes);
  size_ += bytes.size();
}

mbc_sink NewFile::sink() {
  auto append = [](void *file, const char *bytes, size_t count) {
    static_cast<NewFile *>(file)->append({bytes, count});
  };
  return {append, this};
}

Result<void> NewFile::publish() {
  append({}); // there may have been no bytes
  if (written_)
    written_ = file_->sync();
  if (written_)
    written_ = renamePath(temporary_, path_);
  return written_;
}

Result<OutputFile> NewFile::create() const {
  std::error_code error;
  std::filesystem::file_status found = std::filesystem::status(path_, error);
  if (exists(found) && !is_regular_file(found))
    return fail("{}: is not a regular file: give the name of a new file, or "
                "of one to replace",
                path_);
  std::filesystem::remove(temporary_, error);
  Result<OutputFile> created = OutputFile::create(temporary_);
  if (created && exists(found))
    std::filesystem::permissions(temporary_, found.permissions(), error);
  return created;
}

} // namespace mbc
