# Plans, their execution and publication.
add_library(mbc-test-kernels MODULE ScaleKernel.cpp)
target_link_libraries(mbc-test-kernels PRIVATE mbc-flags)

add_executable(mbc-executor-tests
  ExecutorTest.cpp
  PlanBuilder.cpp
  PlanTest.cpp
  PublishTest.cpp
  TilesTest.cpp
  TorchTargetTest.cpp
)
target_link_libraries(mbc-executor-tests PRIVATE mbc-runtime GTest::gtest_main)
add_dependencies(mbc-executor-tests mbc-test-kernels)
target_compile_definitions(mbc-executor-tests PRIVATE
  SCALE_KERNEL="$<TARGET_FILE:mbc-test-kernels>")
gtest_discover_tests(mbc-executor-tests)
