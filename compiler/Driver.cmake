# What `mbc` loads at first use: everything from spec to plan, behind one
# function.
add_subdirectory(Binding)
add_subdirectory(Target)
add_library(mbc-compiler SHARED Compilation.cpp CompilePlan.cpp Library.cpp)
target_link_libraries(mbc-compiler PRIVATE mbc-target mbc-graph mbc-flags)
# Symbols stay visible: MLIR tells types apart by the addresses of inline
# variables, which have to be one with those of libMLIR.so.
