/* The C interface of libmbc.so: the tensors of one rank, converted from a
 * checkpoint into memory of the host or of a GPU, without a checkpoint in
 * between.
 *
 *   mbc compile HF -o plan.mbc --format torch --tp 8     once, anywhere
 *
 *   mbc_load_options options = {sizeof options, rank, 0, 0, device};
 *   char error[1024];
 *   mbc_tensors *tensors =
 *       mbc_load("plan.mbc", "HF", &options, error, sizeof error);
 *   for (size_t i = 0; i != mbc_tensor_count(tensors); ++i)
 *     load_parameter(mbc_tensor_name(tensors, i),
 *                    mbc_tensor_dlpack(tensors, i));
 *   mbc_tensors_free(tensors);
 *
 * A plan to Hugging Face (from a Megatron checkpoint) gives Hugging Face's
 * tensors. Functions may be called from any thread; nothing is thrown. */
#ifndef MBC_H
#define MBC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MBC_API __attribute__((visibility("default")))

struct DLManagedTensor; /* dlpack/dlpack.h */
typedef struct mbc_tensors mbc_tensors;

/* Zero is the default of every field but `device`. */
typedef struct {
  size_t size;            /* sizeof(mbc_load_options) */
  int32_t tp, pp, ep;     /* the rank; of a plan to Hugging Face 0 */
  int32_t device;         /* GPU that the tensors go to; -1: the host */
  uint32_t threads;       /* 0: one a processor */
  uint64_t memory;        /* bytes of host buffers at most; 0: 512 MiB */
  uint64_t device_memory; /* of buffers beside the tensors; 0: half of what is
                             free */
} mbc_load_options;

/* Loads what `plan` would write for the rank, from the files in `source`.
 * NULL on failure: `error`, of `error_size` bytes, then has the reason. */
MBC_API mbc_tensors *mbc_load(const char *plan, const char *source,
                              const mbc_load_options *options, char *error,
                              size_t error_size);

MBC_API size_t mbc_tensor_count(const mbc_tensors *tensors);

/* The key in the rank's file ("decoder.layers.0.mlp.linear_fc1.weight"; with
 * virtual stages "model1.decoder..."). Lives as long as `tensors`. */
MBC_API const char *mbc_tensor_name(const mbc_tensors *tensors, size_t index);

/* The tensor for another library (torch.utils.dlpack, cupy ...), which shares
 * its bytes: they live until `tensors` and every export are freed. Numbers of 8
 * bits that DLPack has no type for are unsigned bytes. NULL if there is no such
 * tensor. */
MBC_API struct DLManagedTensor *mbc_tensor_dlpack(const mbc_tensors *tensors,
                                                  size_t index);

MBC_API void mbc_tensors_free(mbc_tensors *tensors);

#ifdef __cplusplus
}
#endif

#endif
