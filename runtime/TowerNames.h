#pragma once

#include <string_view>

namespace mbc {

/// What a part of a model beside its decoder is for.
enum class Tower { None, Vision, Audio };

/// By how a segment of a Megatron name begins.
constexpr Tower towerOf(std::string_view segment) {
  if (segment.starts_with("vis") || segment.starts_with("image"))
    return Tower::Vision;
  if (segment.starts_with("audio") || segment.starts_with("sound"))
    return Tower::Audio;
  return Tower::None;
}

} // namespace mbc
