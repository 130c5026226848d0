/* cuda_attributes.h -- the results of cudaDeviceGetAttribute(), as a list of
 * SIMT_ATTRIBUTE(number, name, value). The including file defines this macro.
 * The value is an expression in `p`, a cudaDeviceProp. */
SIMT_ATTRIBUTE(1, cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock)
SIMT_ATTRIBUTE(2, cudaDevAttrMaxBlockDimX, p.maxThreadsDim[0])
SIMT_ATTRIBUTE(3, cudaDevAttrMaxBlockDimY, p.maxThreadsDim[1])
SIMT_ATTRIBUTE(4, cudaDevAttrMaxBlockDimZ, p.maxThreadsDim[2])
SIMT_ATTRIBUTE(5, cudaDevAttrMaxGridDimX, p.maxGridSize[0])
SIMT_ATTRIBUTE(6, cudaDevAttrMaxGridDimY, p.maxGridSize[1])
SIMT_ATTRIBUTE(7, cudaDevAttrMaxGridDimZ, p.maxGridSize[2])
SIMT_ATTRIBUTE(8, cudaDevAttrMaxSharedMemoryPerBlock, p.sharedMemPerBlock)
SIMT_ATTRIBUTE(9, cudaDevAttrTotalConstantMemory, p.totalConstMem)
SIMT_ATTRIBUTE(10, cudaDevAttrWarpSize, p.warpSize)
SIMT_ATTRIBUTE(11, cudaDevAttrMaxPitch, p.memPitch)
SIMT_ATTRIBUTE(12, cudaDevAttrMaxRegistersPerBlock, p.regsPerBlock)
SIMT_ATTRIBUTE(13, cudaDevAttrClockRate, p.clockRate)
SIMT_ATTRIBUTE(14, cudaDevAttrTextureAlignment, p.textureAlignment)
SIMT_ATTRIBUTE(15, cudaDevAttrGpuOverlap, p.deviceOverlap)
SIMT_ATTRIBUTE(16, cudaDevAttrMultiProcessorCount, p.multiProcessorCount)
SIMT_ATTRIBUTE(17, cudaDevAttrKernelExecTimeout, p.kernelExecTimeoutEnabled)
SIMT_ATTRIBUTE(18, cudaDevAttrIntegrated, p.integrated)
SIMT_ATTRIBUTE(19, cudaDevAttrCanMapHostMemory, p.canMapHostMemory)
SIMT_ATTRIBUTE(20, cudaDevAttrComputeMode, p.computeMode)
SIMT_ATTRIBUTE(21, cudaDevAttrMaxTexture1DWidth, p.maxTexture1D)
SIMT_ATTRIBUTE(22, cudaDevAttrMaxTexture2DWidth, p.maxTexture2D[0])
SIMT_ATTRIBUTE(23, cudaDevAttrMaxTexture2DHeight, p.maxTexture2D[1])
SIMT_ATTRIBUTE(24, cudaDevAttrMaxTexture3DWidth, p.maxTexture3D[0])
SIMT_ATTRIBUTE(25, cudaDevAttrMaxTexture3DHeight, p.maxTexture3D[1])
SIMT_ATTRIBUTE(26, cudaDevAttrMaxTexture3DDepth, p.maxTexture3D[2])
SIMT_ATTRIBUTE(27, cudaDevAttrMaxTexture2DLayeredWidth,
               p.maxTexture2DLayered[0])
SIMT_ATTRIBUTE(28, cudaDevAttrMaxTexture2DLayeredHeight,
               p.maxTexture2DLayered[1])
SIMT_ATTRIBUTE(29, cudaDevAttrMaxTexture2DLayeredLayers,
               p.maxTexture2DLayered[2])
SIMT_ATTRIBUTE(30, cudaDevAttrSurfaceAlignment, p.surfaceAlignment)
SIMT_ATTRIBUTE(31, cudaDevAttrConcurrentKernels, p.concurrentKernels)
SIMT_ATTRIBUTE(32, cudaDevAttrEccEnabled, p.ECCEnabled)
SIMT_ATTRIBUTE(33, cudaDevAttrPciBusId, p.pciBusID)
SIMT_ATTRIBUTE(34, cudaDevAttrPciDeviceId, p.pciDeviceID)
SIMT_ATTRIBUTE(35, cudaDevAttrTccDriver, p.tccDriver)
SIMT_ATTRIBUTE(36, cudaDevAttrMemoryClockRate, p.memoryClockRate)
SIMT_ATTRIBUTE(37, cudaDevAttrGlobalMemoryBusWidth, p.memoryBusWidth)
SIMT_ATTRIBUTE(38, cudaDevAttrL2CacheSize, p.l2CacheSize)
SIMT_ATTRIBUTE(39, cudaDevAttrMaxThreadsPerMultiProcessor,
               p.maxThreadsPerMultiProcessor)
SIMT_ATTRIBUTE(40, cudaDevAttrAsyncEngineCount, p.asyncEngineCount)
SIMT_ATTRIBUTE(41, cudaDevAttrUnifiedAddressing, p.unifiedAddressing)
SIMT_ATTRIBUTE(42, cudaDevAttrMaxTexture1DLayeredWidth,
               p.maxTexture1DLayered[0])
SIMT_ATTRIBUTE(43, cudaDevAttrMaxTexture1DLayeredLayers,
               p.maxTexture1DLayered[1])
SIMT_ATTRIBUTE(45, cudaDevAttrMaxTexture2DGatherWidth, p.maxTexture2DGather[0])
SIMT_ATTRIBUTE(46, cudaDevAttrMaxTexture2DGatherHeight, p.maxTexture2DGather[1])
SIMT_ATTRIBUTE(47, cudaDevAttrMaxTexture3DWidthAlt, p.maxTexture3DAlt[0])
SIMT_ATTRIBUTE(48, cudaDevAttrMaxTexture3DHeightAlt, p.maxTexture3DAlt[1])
SIMT_ATTRIBUTE(49, cudaDevAttrMaxTexture3DDepthAlt, p.maxTexture3DAlt[2])
SIMT_ATTRIBUTE(50, cudaDevAttrPciDomainId, p.pciDomainID)
SIMT_ATTRIBUTE(51, cudaDevAttrTexturePitchAlignment, p.texturePitchAlignment)
SIMT_ATTRIBUTE(52, cudaDevAttrMaxTextureCubemapWidth, p.maxTextureCubemap)
SIMT_ATTRIBUTE(53, cudaDevAttrMaxTextureCubemapLayeredWidth,
               p.maxTextureCubemapLayered[0])
SIMT_ATTRIBUTE(54, cudaDevAttrMaxTextureCubemapLayeredLayers,
               p.maxTextureCubemapLayered[1])
SIMT_ATTRIBUTE(55, cudaDevAttrMaxSurface1DWidth, p.maxSurface1D)
SIMT_ATTRIBUTE(56, cudaDevAttrMaxSurface2DWidth, p.maxSurface2D[0])
SIMT_ATTRIBUTE(57, cudaDevAttrMaxSurface2DHeight, p.maxSurface2D[1])
SIMT_ATTRIBUTE(58, cudaDevAttrMaxSurface3DWidth, p.maxSurface3D[0])
SIMT_ATTRIBUTE(59, cudaDevAttrMaxSurface3DHeight, p.maxSurface3D[1])
SIMT_ATTRIBUTE(60, cudaDevAttrMaxSurface3DDepth, p.maxSurface3D[2])
SIMT_ATTRIBUTE(61, cudaDevAttrMaxSurface1DLayeredWidth,
               p.maxSurface1DLayered[0])
SIMT_ATTRIBUTE(62, cudaDevAttrMaxSurface1DLayeredLayers,
               p.maxSurface1DLayered[1])
SIMT_ATTRIBUTE(63, cudaDevAttrMaxSurface2DLayeredWidth,
               p.maxSurface2DLayered[0])
SIMT_ATTRIBUTE(64, cudaDevAttrMaxSurface2DLayeredHeight,
               p.maxSurface2DLayered[1])
SIMT_ATTRIBUTE(65, cudaDevAttrMaxSurface2DLayeredLayers,
               p.maxSurface2DLayered[2])
SIMT_ATTRIBUTE(66, cudaDevAttrMaxSurfaceCubemapWidth, p.maxSurfaceCubemap)
SIMT_ATTRIBUTE(67, cudaDevAttrMaxSurfaceCubemapLayeredWidth,
               p.maxSurfaceCubemapLayered[0])
SIMT_ATTRIBUTE(68, cudaDevAttrMaxSurfaceCubemapLayeredLayers,
               p.maxSurfaceCubemapLayered[1])
SIMT_ATTRIBUTE(69, cudaDevAttrMaxTexture1DLinearWidth, p.maxTexture1DLinear)
SIMT_ATTRIBUTE(70, cudaDevAttrMaxTexture2DLinearWidth, p.maxTexture2DLinear[0])
SIMT_ATTRIBUTE(71, cudaDevAttrMaxTexture2DLinearHeight, p.maxTexture2DLinear[1])
SIMT_ATTRIBUTE(72, cudaDevAttrMaxTexture2DLinearPitch, p.maxTexture2DLinear[2])
SIMT_ATTRIBUTE(73, cudaDevAttrMaxTexture2DMipmappedWidth,
               p.maxTexture2DMipmap[0])
SIMT_ATTRIBUTE(74, cudaDevAttrMaxTexture2DMipmappedHeight,
               p.maxTexture2DMipmap[1])
SIMT_ATTRIBUTE(75, cudaDevAttrComputeCapabilityMajor, p.major)
SIMT_ATTRIBUTE(76, cudaDevAttrComputeCapabilityMinor, p.minor)
SIMT_ATTRIBUTE(77, cudaDevAttrMaxTexture1DMipmappedWidth, p.maxTexture1DMipmap)
SIMT_ATTRIBUTE(78, cudaDevAttrStreamPrioritiesSupported,
               p.streamPrioritiesSupported)
SIMT_ATTRIBUTE(79, cudaDevAttrGlobalL1CacheSupported, p.globalL1CacheSupported)
SIMT_ATTRIBUTE(80, cudaDevAttrLocalL1CacheSupported, p.localL1CacheSupported)
SIMT_ATTRIBUTE(81, cudaDevAttrMaxSharedMemoryPerMultiprocessor,
               p.sharedMemPerMultiprocessor)
SIMT_ATTRIBUTE(82, cudaDevAttrMaxRegistersPerMultiprocessor,
               p.regsPerMultiprocessor)
SIMT_ATTRIBUTE(83, cudaDevAttrManagedMemory, p.managedMemory)
SIMT_ATTRIBUTE(84, cudaDevAttrIsMultiGpuBoard, p.isMultiGpuBoard)
SIMT_ATTRIBUTE(85, cudaDevAttrMultiGpuBoardGroupID, p.multiGpuBoardGroupID)
SIMT_ATTRIBUTE(86, cudaDevAttrHostNativeAtomicSupported,
               p.hostNativeAtomicSupported)
SIMT_ATTRIBUTE(87, cudaDevAttrSingleToDoublePrecisionPerfRatio,
               p.singleToDoublePrecisionPerfRatio)
SIMT_ATTRIBUTE(88, cudaDevAttrPageableMemoryAccess, p.pageableMemoryAccess)
SIMT_ATTRIBUTE(89, cudaDevAttrConcurrentManagedAccess,
               p.concurrentManagedAccess)
SIMT_ATTRIBUTE(90, cudaDevAttrComputePreemptionSupported,
               p.computePreemptionSupported)
SIMT_ATTRIBUTE(91, cudaDevAttrCanUseHostPointerForRegisteredMem,
               p.canUseHostPointerForRegisteredMem)
SIMT_ATTRIBUTE(95, cudaDevAttrCooperativeLaunch, p.cooperativeLaunch)
SIMT_ATTRIBUTE(96, cudaDevAttrCooperativeMultiDeviceLaunch, 0) // not in 13
SIMT_ATTRIBUTE(97, cudaDevAttrMaxSharedMemoryPerBlockOptin,
               p.sharedMemPerBlockOptin)
SIMT_ATTRIBUTE(98, cudaDevAttrCanFlushRemoteWrites, 0)
SIMT_ATTRIBUTE(99, cudaDevAttrHostRegisterSupported, p.hostRegisterSupported)
SIMT_ATTRIBUTE(100, cudaDevAttrPageableMemoryAccessUsesHostPageTables,
               p.pageableMemoryAccessUsesHostPageTables)
SIMT_ATTRIBUTE(101, cudaDevAttrDirectManagedMemAccessFromHost,
               p.directManagedMemAccessFromHost)
SIMT_ATTRIBUTE(106, cudaDevAttrMaxBlocksPerMultiprocessor,
               p.maxBlocksPerMultiProcessor)
SIMT_ATTRIBUTE(108, cudaDevAttrMaxPersistingL2CacheSize,
               p.persistingL2CacheMaxSize)
SIMT_ATTRIBUTE(109, cudaDevAttrMaxAccessPolicyWindowSize,
               p.accessPolicyMaxWindowSize)
SIMT_ATTRIBUTE(111, cudaDevAttrReservedSharedMemoryPerBlock,
               p.reservedSharedMemPerBlock)
SIMT_ATTRIBUTE(112, cudaDevAttrSparseCudaArraySupported,
               p.sparseCudaArraySupported)
SIMT_ATTRIBUTE(113, cudaDevAttrHostRegisterReadOnlySupported,
               p.hostRegisterReadOnlySupported)
SIMT_ATTRIBUTE(114, cudaDevAttrTimelineSemaphoreInteropSupported,
               p.timelineSemaphoreInteropSupported)
SIMT_ATTRIBUTE(115, cudaDevAttrMemoryPoolsSupported, p.memoryPoolsSupported)
SIMT_ATTRIBUTE(116, cudaDevAttrGPUDirectRDMASupported, p.gpuDirectRDMASupported)
SIMT_ATTRIBUTE(117, cudaDevAttrGPUDirectRDMAFlushWritesOptions,
               p.gpuDirectRDMAFlushWritesOptions)
SIMT_ATTRIBUTE(118, cudaDevAttrGPUDirectRDMAWritesOrdering,
               p.gpuDirectRDMAWritesOrdering)
SIMT_ATTRIBUTE(119, cudaDevAttrMemoryPoolSupportedHandleTypes,
               p.memoryPoolSupportedHandleTypes)
SIMT_ATTRIBUTE(120, cudaDevAttrClusterLaunch, p.clusterLaunch)
SIMT_ATTRIBUTE(121, cudaDevAttrDeferredMappingCudaArraySupported,
               p.deferredMappingCudaArraySupported)
SIMT_ATTRIBUTE(125, cudaDevAttrIpcEventSupport, p.ipcEventSupported)
SIMT_ATTRIBUTE(126, cudaDevAttrMemSyncDomainCount, 1)
SIMT_ATTRIBUTE(130, cudaDevAttrNumaConfig, p.deviceNumaConfig)
SIMT_ATTRIBUTE(131, cudaDevAttrNumaId, p.deviceNumaId)
SIMT_ATTRIBUTE(133, cudaDevAttrMpsEnabled, p.mpsEnabled)
SIMT_ATTRIBUTE(134, cudaDevAttrHostNumaId, p.hostNumaId)
SIMT_ATTRIBUTE(135, cudaDevAttrD3D12CigSupported, 0)
SIMT_ATTRIBUTE(138, cudaDevAttrVulkanCigSupported, 0)
SIMT_ATTRIBUTE(139, cudaDevAttrGpuPciDeviceId, p.gpuPciDeviceID)
SIMT_ATTRIBUTE(140, cudaDevAttrGpuPciSubsystemId, p.gpuPciSubsystemID)
SIMT_ATTRIBUTE(142, cudaDevAttrHostNumaMemoryPoolsSupported, 0)
SIMT_ATTRIBUTE(143, cudaDevAttrHostNumaMultinodeIpcSupported,
               p.hostNumaMultinodeIpcSupported)
SIMT_ATTRIBUTE(144, cudaDevAttrHostMemoryPoolsSupported, 0)
SIMT_ATTRIBUTE(147, cudaDevAttrOnlyPartialHostNativeAtomicSupported, 0)
#undef SIMT_ATTRIBUTE
