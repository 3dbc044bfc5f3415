#include "runtime/Sha256.h"

#include <array>
#include <new>

#include <openssl/evp.h>

namespace mbc {
namespace {
EVP_MD_CTX *context(void *pointer) {
  return static_cast<EVP_MD_CTX *>(pointer);
}
} // namespace

void Sha256::Free::operator()(void *pointer) const {
  EVP_MD_CTX_free(context(pointer));
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (!context_)
    throw std::bad_alloc();
  EVP_DigestInit_ex(context(context_.get()), EVP_sha256(), nullptr);
}

void Sha256::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(context(context_.get()), bytes.data(), bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned length = 0;
  EVP_DigestFinal_ex(context(context_.get()), digest.data(), &length);
  std::string text;
  for (unsigned i = 0; i != length; ++i)
    for (unsigned nibble : {digest[i] >> 4, digest[i] & 15})
      text += "0123456789abcdef"[nibble];
  return text;
}

} // namespace mbc
