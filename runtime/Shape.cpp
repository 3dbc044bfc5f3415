#include "runtime/Shape.h"

namespace mbc {

std::string toString(const Shape &shape) {
  std::string text = "[";
  for (size_t dim = 0; dim != shape.rank(); ++dim) {
    if (dim != 0)
      text += ", ";
    text += std::to_string(shape[dim]);
  }
  return text += "]";
}

} // namespace mbc
