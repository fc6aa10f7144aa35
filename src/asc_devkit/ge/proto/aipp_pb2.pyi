from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AippFile(_message.Message):
    __slots__ = ("aipp_op",)
    AIPP_OP_FIELD_NUMBER: _ClassVar[int]
    aipp_op: _containers.RepeatedCompositeFieldContainer[AippOp]
    def __init__(self, aipp_op: _Optional[_Iterable[_Union[AippOp, _Mapping]]] = ...) -> None: ...

class AippOp(_message.Message):
    __slots__ = ("aipp_mode", "related_input_rank", "related_input_name", "input_edge_idx", "max_src_image_size", "support_rotation", "input_format", "src_image_size_w", "src_image_size_h", "rbuv_swap_switch", "ax_swap_switch", "crop", "load_start_pos_w", "load_start_pos_h", "crop_size_w", "crop_size_h", "csc_switch", "matrix_r0c0", "matrix_r0c1", "matrix_r0c2", "matrix_r1c0", "matrix_r1c1", "matrix_r1c2", "matrix_r2c0", "matrix_r2c1", "matrix_r2c2", "input_bias_0", "input_bias_1", "input_bias_2", "output_bias_0", "output_bias_1", "output_bias_2", "mean_chn_0", "mean_chn_1", "mean_chn_2", "mean_chn_3", "min_chn_0", "min_chn_1", "min_chn_2", "min_chn_3", "var_reci_chn_0", "var_reci_chn_1", "var_reci_chn_2", "var_reci_chn_3", "padding", "left_padding_size", "right_padding_size", "top_padding_size", "bottom_padding_size", "padding_value", "resize", "resize_output_w", "resize_output_h", "cpadding_value", "single_line_mode", "rotation_angle", "raw_rgbir_to_f16_n")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        static: _ClassVar[AippOp.Mode]
        dynamic: _ClassVar[AippOp.Mode]
    static: AippOp.Mode
    dynamic: AippOp.Mode
    class InputFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        YUV420SP_U8: _ClassVar[AippOp.InputFormat]
        XRGB8888_U8: _ClassVar[AippOp.InputFormat]
        RGB888_U8: _ClassVar[AippOp.InputFormat]
        YUV400_U8: _ClassVar[AippOp.InputFormat]
    YUV420SP_U8: AippOp.InputFormat
    XRGB8888_U8: AippOp.InputFormat
    RGB888_U8: AippOp.InputFormat
    YUV400_U8: AippOp.InputFormat
    AIPP_MODE_FIELD_NUMBER: _ClassVar[int]
    RELATED_INPUT_RANK_FIELD_NUMBER: _ClassVar[int]
    RELATED_INPUT_NAME_FIELD_NUMBER: _ClassVar[int]
    INPUT_EDGE_IDX_FIELD_NUMBER: _ClassVar[int]
    MAX_SRC_IMAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    SUPPORT_ROTATION_FIELD_NUMBER: _ClassVar[int]
    INPUT_FORMAT_FIELD_NUMBER: _ClassVar[int]
    SRC_IMAGE_SIZE_W_FIELD_NUMBER: _ClassVar[int]
    SRC_IMAGE_SIZE_H_FIELD_NUMBER: _ClassVar[int]
    RBUV_SWAP_SWITCH_FIELD_NUMBER: _ClassVar[int]
    AX_SWAP_SWITCH_FIELD_NUMBER: _ClassVar[int]
    CROP_FIELD_NUMBER: _ClassVar[int]
    LOAD_START_POS_W_FIELD_NUMBER: _ClassVar[int]
    LOAD_START_POS_H_FIELD_NUMBER: _ClassVar[int]
    CROP_SIZE_W_FIELD_NUMBER: _ClassVar[int]
    CROP_SIZE_H_FIELD_NUMBER: _ClassVar[int]
    CSC_SWITCH_FIELD_NUMBER: _ClassVar[int]
    MATRIX_R0C0_FIELD_NUMBER: _ClassVar[int]
    MATRIX_R0C1_FIELD_NUMBER: _ClassVar[int]
    MATRIX_R0C2_FIELD_NUMBER: _ClassVar[int]
    MATRIX_R1C0_FIELD_NUMBER: _ClassVar[int]
    MATRIX_R1C1_FIELD_NUMBER: _ClassVar[int]
    MATRIX_R1C2_FIELD_NUMBER: _ClassVar[int]
    MATRIX_R2C0_FIELD_NUMBER: _ClassVar[int]
    MATRIX_R2C1_FIELD_NUMBER: _ClassVar[int]
    MATRIX_R2C2_FIELD_NUMBER: _ClassVar[int]
    INPUT_BIAS_0_FIELD_NUMBER: _ClassVar[int]
    INPUT_BIAS_1_FIELD_NUMBER: _ClassVar[int]
    INPUT_BIAS_2_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BIAS_0_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BIAS_1_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BIAS_2_FIELD_NUMBER: _ClassVar[int]
    MEAN_CHN_0_FIELD_NUMBER: _ClassVar[int]
    MEAN_CHN_1_FIELD_NUMBER: _ClassVar[int]
    MEAN_CHN_2_FIELD_NUMBER: _ClassVar[int]
    MEAN_CHN_3_FIELD_NUMBER: _ClassVar[int]
    MIN_CHN_0_FIELD_NUMBER: _ClassVar[int]
    MIN_CHN_1_FIELD_NUMBER: _ClassVar[int]
    MIN_CHN_2_FIELD_NUMBER: _ClassVar[int]
    MIN_CHN_3_FIELD_NUMBER: _ClassVar[int]
    VAR_RECI_CHN_0_FIELD_NUMBER: _ClassVar[int]
    VAR_RECI_CHN_1_FIELD_NUMBER: _ClassVar[int]
    VAR_RECI_CHN_2_FIELD_NUMBER: _ClassVar[int]
    VAR_RECI_CHN_3_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    LEFT_PADDING_SIZE_FIELD_NUMBER: _ClassVar[int]
    RIGHT_PADDING_SIZE_FIELD_NUMBER: _ClassVar[int]
    TOP_PADDING_SIZE_FIELD_NUMBER: _ClassVar[int]
    BOTTOM_PADDING_SIZE_FIELD_NUMBER: _ClassVar[int]
    PADDING_VALUE_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    RESIZE_OUTPUT_W_FIELD_NUMBER: _ClassVar[int]
    RESIZE_OUTPUT_H_FIELD_NUMBER: _ClassVar[int]
    CPADDING_VALUE_FIELD_NUMBER: _ClassVar[int]
    SINGLE_LINE_MODE_FIELD_NUMBER: _ClassVar[int]
    ROTATION_ANGLE_FIELD_NUMBER: _ClassVar[int]
    RAW_RGBIR_TO_F16_N_FIELD_NUMBER: _ClassVar[int]
    aipp_mode: AippOp.Mode
    related_input_rank: int
    related_input_name: str
    input_edge_idx: int
    max_src_image_size: int
    support_rotation: bool
    input_format: AippOp.InputFormat
    src_image_size_w: int
    src_image_size_h: int
    rbuv_swap_switch: bool
    ax_swap_switch: bool
    crop: bool
    load_start_pos_w: int
    load_start_pos_h: int
    crop_size_w: int
    crop_size_h: int
    csc_switch: bool
    matrix_r0c0: int
    matrix_r0c1: int
    matrix_r0c2: int
    matrix_r1c0: int
    matrix_r1c1: int
    matrix_r1c2: int
    matrix_r2c0: int
    matrix_r2c1: int
    matrix_r2c2: int
    input_bias_0: int
    input_bias_1: int
    input_bias_2: int
    output_bias_0: int
    output_bias_1: int
    output_bias_2: int
    mean_chn_0: int
    mean_chn_1: int
    mean_chn_2: int
    mean_chn_3: int
    min_chn_0: float
    min_chn_1: float
    min_chn_2: float
    min_chn_3: float
    var_reci_chn_0: float
    var_reci_chn_1: float
    var_reci_chn_2: float
    var_reci_chn_3: float
    padding: bool
    left_padding_size: int
    right_padding_size: int
    top_padding_size: int
    bottom_padding_size: int
    padding_value: float
    resize: bool
    resize_output_w: int
    resize_output_h: int
    cpadding_value: float
    single_line_mode: bool
    rotation_angle: int
    raw_rgbir_to_f16_n: int
    def __init__(self, aipp_mode: _Optional[_Union[AippOp.Mode, str]] = ..., related_input_rank: _Optional[int] = ..., related_input_name: _Optional[str] = ..., input_edge_idx: _Optional[int] = ..., max_src_image_size: _Optional[int] = ..., support_rotation: bool = ..., input_format: _Optional[_Union[AippOp.InputFormat, str]] = ..., src_image_size_w: _Optional[int] = ..., src_image_size_h: _Optional[int] = ..., rbuv_swap_switch: bool = ..., ax_swap_switch: bool = ..., crop: bool = ..., load_start_pos_w: _Optional[int] = ..., load_start_pos_h: _Optional[int] = ..., crop_size_w: _Optional[int] = ..., crop_size_h: _Optional[int] = ..., csc_switch: bool = ..., matrix_r0c0: _Optional[int] = ..., matrix_r0c1: _Optional[int] = ..., matrix_r0c2: _Optional[int] = ..., matrix_r1c0: _Optional[int] = ..., matrix_r1c1: _Optional[int] = ..., matrix_r1c2: _Optional[int] = ..., matrix_r2c0: _Optional[int] = ..., matrix_r2c1: _Optional[int] = ..., matrix_r2c2: _Optional[int] = ..., input_bias_0: _Optional[int] = ..., input_bias_1: _Optional[int] = ..., input_bias_2: _Optional[int] = ..., output_bias_0: _Optional[int] = ..., output_bias_1: _Optional[int] = ..., output_bias_2: _Optional[int] = ..., mean_chn_0: _Optional[int] = ..., mean_chn_1: _Optional[int] = ..., mean_chn_2: _Optional[int] = ..., mean_chn_3: _Optional[int] = ..., min_chn_0: _Optional[float] = ..., min_chn_1: _Optional[float] = ..., min_chn_2: _Optional[float] = ..., min_chn_3: _Optional[float] = ..., var_reci_chn_0: _Optional[float] = ..., var_reci_chn_1: _Optional[float] = ..., var_reci_chn_2: _Optional[float] = ..., var_reci_chn_3: _Optional[float] = ..., padding: bool = ..., left_padding_size: _Optional[int] = ..., right_padding_size: _Optional[int] = ..., top_padding_size: _Optional[int] = ..., bottom_padding_size: _Optional[int] = ..., padding_value: _Optional[float] = ..., resize: bool = ..., resize_output_w: _Optional[int] = ..., resize_output_h: _Optional[int] = ..., cpadding_value: _Optional[float] = ..., single_line_mode: bool = ..., rotation_angle: _Optional[int] = ..., raw_rgbir_to_f16_n: _Optional[int] = ...) -> None: ...
