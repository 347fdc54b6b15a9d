# SPDX-License-Identifier: MIT
"""``tf.image``: images [height, width, channels], or batches of them."""

from typing import TYPE_CHECKING

from ipu._text.exports import export, offered
from ipu.tf._images.boxes import (
    combined_non_max_suppression as combined_non_max_suppression,
    crop_and_resize as crop_and_resize,
    draw_bounding_boxes as draw_bounding_boxes,
    non_max_suppression as non_max_suppression,
    non_max_suppression_overlaps as non_max_suppression_overlaps,
    non_max_suppression_padded as non_max_suppression_padded,
    non_max_suppression_with_scores as non_max_suppression_with_scores,
)
from ipu.tf._images.changes import (
    adjust_jpeg_quality as adjust_jpeg_quality,
    flip_left_right as flip_left_right,
    flip_up_down as flip_up_down,
    random_brightness as random_brightness,
    random_contrast as random_contrast,
    random_crop as random_crop,
    random_flip_left_right as random_flip_left_right,
    random_flip_up_down as random_flip_up_down,
    random_hue as random_hue,
    random_jpeg_quality as random_jpeg_quality,
    random_saturation as random_saturation,
    rot90 as rot90,
    stateless_random_brightness as stateless_random_brightness,
    stateless_random_contrast as stateless_random_contrast,
    stateless_random_crop as stateless_random_crop,
    stateless_random_flip_left_right as stateless_random_flip_left_right,
    stateless_random_flip_up_down as stateless_random_flip_up_down,
    stateless_random_hue as stateless_random_hue,
    stateless_random_jpeg_quality as stateless_random_jpeg_quality,
    stateless_random_saturation as stateless_random_saturation,
    transpose as transpose,
)
from ipu.tf._images.colors import (
    adjust_brightness as adjust_brightness,
    adjust_contrast as adjust_contrast,
    adjust_gamma as adjust_gamma,
    adjust_hue as adjust_hue,
    adjust_saturation as adjust_saturation,
    convert_image_dtype as convert_image_dtype,
    grayscale_to_rgb as grayscale_to_rgb,
    hsv_to_rgb as hsv_to_rgb,
    per_image_standardization as per_image_standardization,
    rgb_to_grayscale as rgb_to_grayscale,
    rgb_to_hsv as rgb_to_hsv,
    rgb_to_yiq as rgb_to_yiq,
    rgb_to_yuv as rgb_to_yuv,
    yiq_to_rgb as yiq_to_rgb,
    yuv_to_rgb as yuv_to_rgb,
)
from ipu.tf._images.measures import (
    extract_patches as extract_patches,
    image_gradients as image_gradients,
    psnr as psnr,
    sobel_edges as sobel_edges,
    ssim as ssim,
    ssim_multiscale as ssim_multiscale,
    total_variation as total_variation,
)
from ipu.tf._images.size import (
    ResizeMethod as ResizeMethod,
    central_crop as central_crop,
    crop_to_bounding_box as crop_to_bounding_box,
    pad_to_bounding_box as pad_to_bounding_box,
    resize as resize,
    resize_with_crop_or_pad as resize_with_crop_or_pad,
    resize_with_pad as resize_with_pad,
)

if TYPE_CHECKING:
    from ipu.tf.io import (
        decode_bmp as decode_bmp,
        decode_gif as decode_gif,
        decode_image as decode_image,
        decode_jpeg as decode_jpeg,
        decode_png as decode_png,
        encode_jpeg as encode_jpeg,
        encode_png as encode_png,
    )
else:
    # loaded when they are used
    _OF_FILES = """decode_bmp decode_gif decode_image decode_jpeg decode_png encode_jpeg
    encode_png"""
    _LAZY = {name: f"ipu.tf.io:{name}" for name in _OF_FILES.split()}
    export(__name__, offered(__name__, _LAZY), _LAZY)
