// Kernels as a plan carries them, written out in C++: the runtime only sees
// the object file.
#include <cstdint>
#include <cstring>

/// U8 times the F32 scale of its block, to F32.
extern "C" int64_t scale_u8(const void *source, const void *scales,
                            void *target, const int64_t *g) {
  for (int64_t i = 0; i != g[0]; ++i)
    for (int64_t j = 0; j != g[1]; ++j) {
      float scale, value;
      int64_t block = (g[6] + i) / g[9] * g[8] + (g[7] + j) / g[10];
      std::memcpy(&scale, static_cast<const char *>(scales) + 4 * block, 4);
      value = static_cast<const uint8_t *>(source)[i * g[2] + j * g[3]] * scale;
      std::memcpy(static_cast<char *>(target) + 4 * (i * g[4] + j * g[5]),
                  &value, 4);
    }
  return -1;
}

/// I16 to I8 where the value fits.
extern "C" int64_t narrow_i16(const void *source, const void *, void *target,
                              const int64_t *g) {
  for (int64_t i = 0; i != g[0]; ++i)
    for (int64_t j = 0; j != g[1]; ++j) {
      int16_t value;
      std::memcpy(&value,
                  static_cast<const char *>(source) + 2 * (i * g[2] + j * g[3]),
                  2);
      if (value < -128 || value > 127)
        return i * g[1] + j;
      static_cast<int8_t *>(target)[i * g[4] + j * g[5]] = value;
    }
  return -1;
}
