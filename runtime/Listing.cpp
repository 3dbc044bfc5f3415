#include "runtime/Listing.h"

#include "runtime/File.h"
#include "runtime/Json.h"
#include "runtime/Sha256.h"
#include "runtime/TensorBytes.h"

#include <algorithm>

#include <tbb/parallel_for.h>

namespace mbc {
namespace {

/// Rows hashed before they are written.
constexpr size_t batchRows = 1024;

/// A tensor, a shard of one, or a byte object.
struct Row {
  std::string_view name, rank, key;
  const StoredTensor *tensor = nullptr;
  const StoredObject *object = nullptr;
  const RankShard *shard = nullptr;
  std::string sha256;

  Shape shape() const {
    return shard ? shard->shape : tensor ? *tensor->shape : Shape();
  }
  std::string_view dtype() const {
    return tensor ? safetensorsName(tensor->dtype) : "OBJECT";
  }
  uint64_t bytes() const {
    return tensor ? static_cast<uint64_t>(shape().elements()) *
                        byteSize(tensor->dtype)
                  : object->length;
  }
};

std::vector<Row> tensorRows(const std::vector<StoredTensor> &tensors) {
  std::vector<Row> rows;
  rows.reserve(tensors.size());
  for (const StoredTensor &tensor : tensors) {
    Row &row = rows.emplace_back();
    row.name = tensor.name;
    row.rank = tensor.rank;
    row.key = tensor.key;
    row.tensor = &tensor;
  }
  return rows;
}

std::vector<Row> keyRows(const Checkpoint &checkpoint) {
  bool own = checkpoint.format == Format::TorchDist;
  std::vector<Row> rows =
      tensorRows(own ? checkpoint.keys : checkpoint.tensors);
  for (Row &row : rows)
    if (!row.key.empty())
      row.name = std::exchange(row.key, {});
  for (const StoredObject &object : checkpoint.objects) {
    Row &row = rows.emplace_back();
    row.name = object.key;
    row.object = &object;
  }
  return rows;
}

std::vector<Row> shardRows(const Checkpoint &whole,
                           const std::vector<RankShard> &shards) {
  std::vector<Row> rows;
  rows.reserve(shards.size());
  for (const RankShard &shard : shards) {
    Row &row = rows.emplace_back();
    row.name = shard.name;
    row.rank = shard.rank;
    row.tensor = &whole.tensors[shard.tensor];
    row.shard = &shard;
  }
  return rows;
}

Result<std::string> hashObject(const Checkpoint &checkpoint,
                               const StoredObject &object) {
  Result<InputFile> file = InputFile::open(
      joinPath(checkpoint.root, checkpoint.files[object.file].path));
  if (!file)
    return std::unexpected(file.error());
  Result<std::string> bytes = file->readAt(object.offset, object.length);
  if (!bytes)
    return bytes;
  Sha256 hash;
  hash.update(std::as_bytes(std::span(*bytes)));
  return hash.hex();
}

Result<std::string> hashRow(const Checkpoint &checkpoint, const Row &row) {
  if (row.object)
    return hashObject(checkpoint, *row.object);
  if (row.shard)
    return hashBoxes(checkpoint, *row.tensor, row.shard->boxes);
  TensorBox whole = wholeBox(*row.tensor);
  return hashBoxes(checkpoint, *row.tensor, {&whole, 1});
}

Result<void> hashRows(const Checkpoint &checkpoint, std::span<Row> rows) {
  std::vector<Result<std::string>> hashes(rows.size());
  tbb::parallel_for(size_t{0}, rows.size(), [&](size_t i) {
    hashes[i] = hashRow(checkpoint, rows[i]);
  });
  for (size_t i = 0; i != rows.size(); ++i) {
    if (!hashes[i])
      return fail("{}: {}", rows[i].name, hashes[i].error().message);
    rows[i].sha256 = std::move(*hashes[i]);
  }
  return {};
}

std::string jsonShape(const Shape &shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ","));
}

void jsonText(std::string &out, std::string_view key, std::string_view value) {
  fmt::format_to(std::back_inserter(out), ",\"{}\":", key);
  appendJsonString(out, value);
}

void jsonPlace(std::string &out, const Checkpoint &checkpoint, uint32_t file,
               uint64_t offset) {
  out += "\"file\":";
  appendJsonString(out, checkpoint.files[file].path);
  fmt::format_to(std::back_inserter(out), ",\"offset\":{}", offset);
}

std::string jsonRow(const Checkpoint &checkpoint, const Row &row) {
  std::string out = "{\"name\":";
  appendJsonString(out, row.name);
  fmt::format_to(std::back_inserter(out),
                 ",\"dtype\":\"{}\",\"shape\":{},\"bytes\":{}", row.dtype(),
                 jsonShape(row.shape()), row.bytes());
  if (row.object) {
    jsonPlace(out += ',', checkpoint, row.object->file, row.object->offset);
  } else if (!row.shard && row.tensor->pieces.size() == 1) {
    const StoredPiece &piece = row.tensor->pieces[0];
    jsonPlace(out += ',', checkpoint, piece.file, piece.offset);
  } else if (!row.shard) {
    out += ",\"chunks\":[";
    for (const StoredPiece &piece : row.tensor->pieces) {
      out += &piece == row.tensor->pieces.data() ? "{" : ",{";
      jsonPlace(out, checkpoint, piece.file, piece.offset);
      fmt::format_to(std::back_inserter(out), ",\"start\":{},\"shape\":{}}}",
                     jsonShape(*piece.start), jsonShape(*piece.shape));
    }
    out += ']';
  }
  if (!row.sha256.empty())
    jsonText(out, "sha256", row.sha256);
  if (!row.rank.empty())
    jsonText(out, "rank", row.rank);
  if (!row.key.empty())
    jsonText(out, "key", row.key);
  return out += '}';
}

/// A name as a terminal may get it: control characters, C1 included, are
/// spelt as in JSON.
std::string printable(std::string_view name) {
  std::string out;
  auto byte = [&](size_t at) {
    return at < name.size() ? static_cast<unsigned char>(name[at]) : 0u;
  };
  for (size_t at = 0; at != name.size(); ++at) {
    bool secondSet = byte(at) == 0xc2 && (byte(at + 1) & 0xe0) == 0x80;
    if (secondSet)
      ++at;
    if (secondSet || byte(at) < 0x20 || byte(at) == 0x7f)
      out += fmt::format("\\u{:04x}", byte(at));
    else
      out += name[at];
  }
  return out;
}

std::string textRow(const Checkpoint &checkpoint, const Row &row,
                    size_t nameWidth, size_t shapeWidth) {
  std::string out =
      row.rank.empty() ? std::string() : fmt::format("{:<16}  ", row.rank);
  fmt::format_to(std::back_inserter(out), "{:<{}}  {:<11}  {:<{}}  {:>12}",
                 printable(row.name), nameWidth, row.dtype(),
                 toString(row.shape()), shapeWidth, row.bytes());
  if (row.object)
    fmt::format_to(std::back_inserter(out), "  {}:{}",
                   printable(checkpoint.files[row.object->file].path),
                   row.object->offset);
  else if (!row.shard && row.tensor->pieces.size() == 1)
    fmt::format_to(std::back_inserter(out), "  {}:{}",
                   printable(checkpoint.files[row.tensor->pieces[0].file].path),
                   row.tensor->pieces[0].offset);
  else if (!row.shard)
    fmt::format_to(std::back_inserter(out), "  {} chunks",
                   row.tensor->pieces.size());
  if (!row.sha256.empty())
    (out += "  ") += row.sha256;
  return out += '\n';
}

Result<void> writeRows(const Checkpoint &checkpoint, std::vector<Row> &rows,
                       const ListingOptions &options, const TextSink &sink) {
  size_t nameWidth = 0, shapeWidth = 0;
  for (const Row &row : rows) {
    nameWidth = std::max(nameWidth, printable(row.name).size());
    shapeWidth = std::max(shapeWidth, toString(row.shape()).size());
  }
  if (options.json)
    sink("[");
  for (size_t begin = 0; begin < rows.size(); begin += batchRows) {
    size_t end = std::min(begin + batchRows, rows.size());
    std::span<Row> batch = std::span(rows).subspan(begin, end - begin);
    if (options.sha256)
      if (auto hashed = hashRows(checkpoint, batch); !hashed)
        return hashed;
    for (const Row &row : batch) {
      if (options.json)
        sink(&row == rows.data() ? "\n" : ",\n");
      sink(options.json ? jsonRow(checkpoint, row)
                        : textRow(checkpoint, row, nameWidth, shapeWidth));
    }
  }
  if (options.json)
    sink("\n]\n");
  return {};
}

} // namespace

Result<void> writeListing(const Checkpoint &checkpoint,
                          const ListingOptions &options, const TextSink &sink) {
  if (const auto &holes = checkpoint.holes; !holes.empty())
    return fail("{}{}", holes.front().text,
                holes.size() == 1
                    ? ""
                    : fmt::format(", and {} more holes", holes.size() - 1));
  if (!options.shards) {
    std::vector<Row> rows =
        options.keys ? keyRows(checkpoint) : tensorRows(checkpoint.tensors);
    return writeRows(checkpoint, rows, options, sink);
  }
  if (checkpoint.format == Format::Safetensors)
    return fail("{}: is a Hugging Face checkpoint; --shards lists the ranks of "
                "a Megatron checkpoint",
                checkpoint.root);
  Result<Checkpoint> whole = joinRanks(checkpoint);
  if (!whole)
    return std::unexpected(whole.error());
  Result<std::vector<RankShard>> shards = shardsOf(*whole, *options.shards);
  if (!shards)
    return fail("{}: {}", checkpoint.root, shards.error().message);
  std::vector<Row> rows = shardRows(*whole, *shards);
  return writeRows(*whole, rows, options, sink);
}

} // namespace mbc
